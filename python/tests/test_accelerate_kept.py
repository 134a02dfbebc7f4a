"""Accelerated models that are copied, saved, compiled and exported."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

import transformers_models as models  # noqa: E402
from test_accelerate import made  # noqa: E402

import deformkit  # noqa: E402
from deformkit.adapters.accelerate import calls, stand_ins  # noqa: E402


def attention_of(make: Any) -> Any:
    """An attention of a model and the arguments of a call."""
    torch.manual_seed(0)
    model, _ = made(make)
    name, attention = next((n, m) for n, m in model.named_modules() if hasattr(m, "sampling_offsets"))
    levels = [(6, 4), (3, 5), (4, 4), (2, 2)][: attention.n_levels]
    cells = sum(height * width for height, width in levels)
    arguments = {
        "hidden_states": torch.randn(2, 9, 32),
        "encoder_hidden_states": torch.randn(2, cells, 32),
        "reference_points": torch.rand(2, 9, 1 if "v2" in make.__name__ or "fine" in make.__name__ else len(levels), 4),
        "spatial_shapes": torch.tensor(levels),
        "spatial_shapes_list": levels,
        "level_start_index": torch.tensor(levels).prod(1).cumsum(0) - torch.tensor(levels).prod(1),
    }
    if make is models.mask2former:
        del arguments["spatial_shapes"]
    if make is models.d_fine:
        del arguments["level_start_index"]
    return attention, arguments


#: One of each way to accelerate: a module that is the operator, a function that forward calls, one that the module holds.
KINDS = [models.deformable_detr, models.mask2former, models.rt_detr_v2, models.d_fine]


def through_pickle(module: Any) -> Any:
    return pickle.loads(pickle.dumps(module))


def through_torch_save(module: Any) -> Any:
    saved = io.BytesIO()
    torch.save(module, saved)
    saved.seek(0)
    return torch.load(saved, weights_only=False)


@pytest.mark.parametrize("keep", [copy.deepcopy, through_pickle, through_torch_save])
@pytest.mark.parametrize("make", KINDS)
def test_copies_are_accelerated(make: Any, keep: Any) -> None:
    """With parameters of their own."""
    attention, arguments = attention_of(make)
    expected = attention(**arguments)[0]
    deformkit.accelerate(attention)
    kept = keep(attention)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.zero_()
    deformkit.set_target("sse41")
    found = kept(**arguments)[0]
    assert deformkit.last_variant().endswith("_sse41")
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert not deformkit.accelerate(kept).replaced


def test_loaded_by_another_process(tmp_path: Path) -> None:
    attention, arguments = attention_of(models.rt_detr_v2)
    deformkit.accelerate(attention)
    torch.save((attention, arguments, attention(**arguments)[0]), tmp_path / "model.pt")
    code = """
import sys, torch
attention, arguments, expected = torch.load(sys.argv[1], weights_only=False)
assert torch.equal(attention(**arguments)[0], expected)
import deformkit
assert deformkit.last_variant().startswith("msda_forward")
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "model.pt"], check=True)


@pytest.mark.parametrize("make", KINDS)
def test_compiles_once(make: Any) -> None:
    """As often as without the library; and one that is not accelerated goes on beside it."""
    from torch._dynamo.testing import CompileCounter

    def run(attention: Any) -> int:
        counter = CompileCounter()
        compiled = torch.compile(attention, backend=counter)
        for _ in range(3):
            torch.testing.assert_close(compiled(**arguments)[0], expected, rtol=1e-4, atol=1e-5)
        return int(counter.frame_count)

    (first, arguments), (second, _) = attention_of(make), attention_of(make)
    expected = first(**arguments)[0]
    torch._dynamo.reset()
    count = run(first)
    torch._dynamo.reset()
    deformkit.accelerate(first)
    assert run(first) == count
    run(second)


@pytest.mark.parametrize("make", KINDS)
def test_export(make: Any) -> None:
    attention, arguments = attention_of(make)
    deformkit.accelerate(attention)
    program = torch.export.export(attention, (), arguments)
    operators = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert sum("deformkit.multi_scale_deformable_attn" in name for name in operators) == 1
    torch.testing.assert_close(program.module()(**arguments)[0], attention(**arguments)[0])


@pytest.mark.parametrize("make", KINDS)
def test_trace(make: Any) -> None:
    """With no warnings but those of the model's own code."""

    class Wrapped(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, hidden_states: Any) -> Any:
            return self.attention(**{**arguments, "hidden_states": hidden_states})[0]

    attention, arguments = attention_of(make)
    seen: list[list[str]] = []
    for accelerated in (False, True):
        if accelerated:
            deformkit.accelerate(attention)
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            traced = torch.jit.trace(Wrapped(), (arguments["hidden_states"],), check_trace=False)
        seen.append([warning.filename for warning in met])
    assert set(seen[1]) <= set(seen[0])
    other = torch.randn(2, 9, 32)
    expected = Wrapped()(other)
    deformkit.set_target("sse41")
    torch.testing.assert_close(traced(other), expected, rtol=1e-4, atol=1e-5)
    assert deformkit.last_variant().endswith("_sse41")


def test_what_does_not_fit_goes_on_with_one_warning() -> None:
    """A function of a known name and arguments, called with tensors that lie otherwise."""

    def original(value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any) -> Any:
        return value.sum()

    call = stand_ins.Function(original, calls.names_of(original), "original")
    shapes, weights = torch.tensor([[2, 3]]), torch.rand(1, 5, 2, 1, 4)
    for value, locations in (
        (torch.rand(1, 6, 16), torch.rand(1, 5, 2, 1, 4, 2)),
        (torch.rand(1, 6, 2, 8), torch.rand(5, 2, 1, 4, 2)),
        (torch.rand(1, 6, 2, 8), torch.rand(1, 5, 2, 1, 4, 3)),
        (torch.rand(1, 6, 2, 8), torch.rand(1, 5, 2, 1, 4, 2).double()),
        (torch.rand(1, 6, 2, 8), torch.rand(1, 5, 2, 1, 4, 2).to_sparse()),
    ):
        call.has_warned = False
        with pytest.warns(RuntimeWarning, match=r"original goes on itself, called with value float32 \[1, 6"):
            assert call(value, shapes, locations, weights) == value.sum()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert call(value, shapes, locations, weights) == value.sum()
    with pytest.raises(TypeError, match="unexpected keyword argument 'scale'"):
        call(value, shapes, locations, weights, scale=2)
    with pytest.raises(TypeError, match="missing 1 required"):
        call(value, shapes, locations)
