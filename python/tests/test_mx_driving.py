"""deformkit.mx_driving's names, and scripts that run unchanged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from problems import Problem

torch = pytest.importorskip("torch")

from test_torch import tensors_of  # noqa: E402

import deformkit.mx_driving  # noqa: E402

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "deformkit.mx_driving", *map(str, arguments)], capture_output=True, text=True, **options
    )


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{script.stem} agrees\n"


def test_every_operator_has_a_script(problem: Problem) -> None:
    assert problem.name in [script.stem for script in SCRIPTS]
    assert callable(getattr(deformkit.mx_driving, problem.name))


def names_of(problem: Problem) -> list[str]:
    """What the original calls its arguments."""
    function = getattr(deformkit.mx_driving, problem.name).__self__
    return list(function.signature.names.values())


def test_arguments_and_path(tmp_path: Path) -> None:
    """As python script.py ARGUMENTS."""
    (tmp_path / "beside.py").write_text("NAME = 'beside'\n")
    script = tmp_path / "script.py"
    script.write_text("import sys, beside\nassert __name__ == '__main__'\nprint(beside.NAME, *sys.argv[1:])\nsys.exit(3)\n")
    done = run("script.py", "--a", "b", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "beside --a b\n"), done.stderr


def test_processes_of_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import subprocess, sys\nprogram = 'import mx_driving, torch; print(torch.ones(1).npu().is_npu)'\n"
        "print(subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, check=True).stdout)\n"
    )
    done = run(script)
    assert done.stdout == "True\n\n", done.stderr


def test_cuda_scripts(tmp_path: Path) -> None:
    """With transfer_to_npu, .cuda() is what .npu() is."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch_npu\nfrom torch_npu.contrib import transfer_to_npu\n"
        "layer = torch.nn.Linear(2, 2).cuda()\nprint(layer(torch.ones(1, 2).cuda()).device)\n"
    )
    done = run(script)
    assert done.stdout == "cpu\n", done.stderr


def test_moves_copy(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
import torch, torch_npu
a = torch.zeros(2)
moved = [a.npu(), a.to("npu"), a.to("npu:0"), a.to(torch.device("npu", 0)), a.to(device="npu"), torch.zeros(2, device="npu:0")]
for b in moved:
    b += 1
    b.requires_grad_()
assert a.eq(0).all() and not a.requires_grad and b.is_npu and b.device.type == "cpu"
layer = torch.nn.Linear(2, 2)
assert layer.npu() is layer and layer.to("npu") is layer
torch.npu.manual_seed(1)
x = torch.rand(3)
torch.manual_seed(1)
assert torch.equal(x, torch.rand(3)) and torch.npu.is_available()
start, end = torch.npu.Event(enable_timing=True), torch.npu.Event(enable_timing=True)
start.record(), end.record()
assert start.elapsed_time(end) >= 0
print("done")
""")
    done = run(script)
    assert done.stdout == "done\n", done.stderr
    assert "Warning" not in done.stderr


def test_patch_of_mmcv(tmp_path: Path) -> None:
    """mmcv's attention computes with the library, on either of its ways."""
    pytest.importorskip("mmcv", exc_type=ImportError)
    script = tmp_path / "script.py"
    script.write_text("""
import sys, types
sys.modules.setdefault("mmcv._ext", type("Extension", (types.ModuleType,), {"__getattr__": lambda self, name: None})("mmcv._ext"))
import torch, deformkit
from mmcv.ops import multi_scale_deform_attn as mmcv_ops
from mx_driving.patcher import Patch, PatcherBuilder, msda
torch.manual_seed(0)
attention = mmcv_ops.MultiScaleDeformableAttention(embed_dims=64, num_heads=4, num_levels=1, num_points=4, batch_first=True)
attention.eval()
shapes, starts = torch.tensor([[12, 20]]), torch.tensor([0])
query, value, points = torch.randn(2, 30, 64), torch.randn(2, 240, 64), torch.rand(2, 30, 1, 2)
def call():
    return attention(query, value=value, reference_points=points, spatial_shapes=shapes, level_start_index=starts)
before, variant = call(), deformkit.last_variant()
with PatcherBuilder().add_module_patch("mmcv", Patch(msda)).build():
    after = call()
assert variant == "" and deformkit.last_variant().startswith("msda_forward") and torch.allclose(after, before, atol=1e-5)
locations, weights = torch.rand(2, 30, 4, 1, 4, 2), torch.rand(2, 30, 4, 1, 4, requires_grad=True)
tensors = (value.view(2, 240, 4, 16), shapes, starts, locations, weights)
output = mmcv_ops.MultiScaleDeformableAttnFunction.apply(*tensors, 64)
assert torch.equal(output, mmcv_ops.multi_scale_deformable_attn_pytorch(*tensors[:2], *tensors[3:]))
output.sum().backward()
assert weights.grad.abs().max() > 0
print("done")
""")
    done = run(script)
    assert done.stdout == "done\n", done.stderr


def test_usage() -> None:
    assert run().returncode == 2
    assert "no such file" in run("nowhere.py").stderr


def test_without_the_runner_nothing_is_replaced() -> None:
    assert "mx_driving" not in sys.modules and "torch_npu" not in sys.modules
    assert not hasattr(torch.Tensor, "npu")


def test_mixed_types(problem: Problem) -> None:
    """Computed in the first argument's type, with tables of any type."""
    function = getattr(deformkit.mx_driving, problem.name)
    tensors = tensors_of(problem)
    expected = problem.forward(*tensors)
    given = list(tensors)
    for i in problem.operator.gradient_positions[1:]:
        given[i] = tensors[i].detach().double().requires_grad_()
    for i in problem.operator.table_positions:
        given[i] = tensors[i].float()
    result = function(*given)
    assert result.dtype == tensors[0].dtype and torch.equal(result, expected)
    result.sum().backward()
    for i in problem.operator.gradient_positions:
        assert given[i].grad.dtype == given[i].dtype


def test_old_name_warns() -> None:
    problem_tensors = [
        torch.ones(1, 6, 1, 4),
        torch.tensor([[2, 3]]),
        torch.tensor([0]),
        torch.rand(1, 2, 1, 1, 3, 2),
        torch.rand(1, 2, 1, 1, 3),
    ]
    with pytest.warns(DeprecationWarning):
        deformkit.mx_driving.npu_multi_scale_deformable_attn_function(*problem_tensors)


def test_errors_name_the_callers_arguments(problem: Problem) -> None:
    function, tensors = getattr(deformkit.mx_driving, problem.name), tensors_of(problem)
    for i, name in enumerate(names_of(problem)):
        for wrong in (None, tensors[i][None]):
            with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
                function(*tensors[:i], wrong, *tensors[i + 1 :])
    for arguments in (tensors[:-1], [*tensors, 64]):
        with pytest.raises(TypeError, match=", ".join(names_of(problem))):
            function(*arguments)


def test_compiled(problem: Problem) -> None:
    """As one graph, with its gradients."""
    function, tensors = getattr(deformkit.mx_driving, problem.name), tensors_of(problem)
    compiled = torch.compile(lambda *inputs: function(*inputs) * 2, fullgraph=True, backend="aot_eager")
    result = compiled(*tensors)
    assert torch.equal(result, function(*tensors) * 2)
    positions = problem.operator.gradient_positions
    inputs = [tensors[i] for i in positions]
    grad_output = torch.rand_like(result)
    expected = torch.autograd.grad(function(*tensors), inputs, 2 * grad_output)
    for gradient, other in zip(torch.autograd.grad(result, inputs, grad_output), expected):
        assert torch.equal(gradient, other)


def test_second_derivatives_are_refused(problem: Problem) -> None:
    tensors = tensors_of(problem)
    output = getattr(deformkit.mx_driving, problem.name)(*tensors)
    (gradient,) = torch.autograd.grad(output, tensors[0], torch.ones_like(output).requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match="second derivatives"):
        gradient.sum().backward()


def test_errors_of_the_old_name() -> None:
    tensors = [
        torch.ones(1, 6, 1, 4),
        torch.tensor([[2, 3]]),
        torch.tensor([0]),
        torch.rand(1, 2, 1, 1, 3, 2),
        torch.rand(1, 2, 1, 1, 3),
    ]
    for i, name in enumerate(("value", "shape", "offset", "locations", "weight")):
        with pytest.warns(DeprecationWarning), pytest.raises(ValueError, match=f"^{name}: expected"):
            wrong = [*tensors[:i], tensors[i][None], *tensors[i + 1 :]]
            deformkit.mx_driving.npu_multi_scale_deformable_attn_function(*wrong)
