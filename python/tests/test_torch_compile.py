"""torch.compile, torch.export, and a training step on two processes."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from problems import Problem

torch = pytest.importorskip("torch")

from test_torch import differentiable, second_derivatives, tensors_of  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("backend, dynamic", [("inductor", False), ("aot_eager", True)])
def test_compile(problem: Problem, backend: str, dynamic: bool) -> None:
    def model(*tensors: Any) -> Any:
        return problem.forward(tensors[0] * 2, *tensors[1:]).square()

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend=backend)
    for sizes in (dict[str, Any](), {"queries": 13}):
        tensors = tensors_of(problem, **sizes)
        expected = model(*tensors)
        wanted = torch.autograd.grad(expected.sum(), differentiable(problem, tensors))
        result = compiled(*tensors)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-6)
        for a, b in zip(torch.autograd.grad(result.sum(), differentiable(problem, tensors)), wanted):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_second_derivatives_are_refused(problem: Problem, backend: str) -> None:
    """By PyTorch itself, in words of its own, where it compiles the backward."""
    tensors = tensors_of(problem)
    for derive in second_derivatives(torch.compile(problem.forward, fullgraph=True, backend=backend), tensors):
        with pytest.raises(RuntimeError, match="double backward|second derivatives are not implemented"):
            derive()


def test_wrong_shapes_are_refused_while_compiling(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    for dynamic in (False, True):
        with pytest.raises(Exception, match=rf"{problem.operator.arguments[-1]}: expected shape\[1\]"):
            torch.compile(problem.forward, fullgraph=True, dynamic=dynamic, backend="eager")(*tensors[:-1], tensors[-1][:, 1:])


def test_compile_under_autocast(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    with torch.autocast("cpu", torch.bfloat16):
        result = torch.compile(problem.forward, fullgraph=True, backend="aot_eager")(tensors[0].bfloat16(), *tensors[1:])
        assert torch.equal(result, problem.forward(tensors[0].bfloat16(), *tensors[1:]))


@pytest.mark.parametrize("imports", ["deformkit, torch", "torch, deformkit"])
def test_first_call_may_be_traced(imports: str) -> None:
    """In a process where deformkit has seen no tensor yet, whichever came first; and it compiles once."""
    code = f"""
import {imports}
from torch._dynamo.testing import CompileCounter
print(torch.ops.deformkit.multi_scale_deformable_attn)
locations, weights = torch.rand(1, 2, 1, 1, 3, 2), torch.rand(1, 2, 1, 1, 3)
arguments = [torch.rand(1, 6, 1, 4), torch.tensor([[2, 3]]), torch.tensor([0]), locations, weights]
counter = CompileCounter()
compiled = torch.compile(deformkit.multi_scale_deformable_attn, fullgraph=True, backend=counter)
for _ in range(3):
    assert torch.equal(compiled(*arguments), deformkit.multi_scale_deformable_attn(*arguments))
assert counter.frame_count == 1
"""
    subprocess.run([sys.executable, "-c", code], check=True)


class Model(torch.nn.Module):
    def __init__(self, problem: Problem) -> None:
        super().__init__()
        self.problem = problem

    def forward(self, *tensors: Any) -> Any:
        return self.problem.forward(*tensors) + 1


def test_export(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    program = torch.export.export(Model(problem), tuple(tensors))
    assert any(f"deformkit.{problem.name}" in str(node.target) for node in program.graph.nodes)
    saved = io.BytesIO()
    torch.export.save(program, saved)
    saved.seek(0)
    others = tensors_of(problem, requires_grad=False, seed=1)
    assert torch.equal(torch.export.load(saved).module()(*others), problem.forward(*others) + 1)


def test_export_with_dynamic_queries(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    queries = torch.export.Dim("queries", min=2, max=100)
    size = tensors_of(problem, requires_grad=False, queries=13)
    shapes = tuple(
        {axis: queries for axis, (a, b) in enumerate(zip(t.shape, other.shape)) if a != b} or None
        for t, other in zip(tensors, size)
    )
    program = torch.export.export(Model(problem), tuple(tensors), dynamic_shapes=(shapes,))
    assert torch.equal(program.module()(*size), problem.forward(*size) + 1)


def test_two_processes(tmp_path: Path) -> None:
    """DistributedDataParallel over gloo: the gradients of both processes are those of the whole batch."""
    program = Path(__file__).parent / "ddp_program.py"
    done = subprocess.run([sys.executable, program, tmp_path / "store"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "gradients agree" in done.stdout
