"""Functions under other libraries' names, called as their users call them."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from problems import PROBLEMS  # noqa: E402
from test_torch import tensors_of  # noqa: E402

import deformkit  # noqa: E402
from deformkit.adapters import _msda, deformable_detr, mmcv  # noqa: E402

MSDA = next(problem for problem in PROBLEMS if problem.kernels == "msda")


@pytest.mark.parametrize("function", [mmcv.multi_scale_deformable_attn_pytorch, deformable_detr.ms_deform_attn_core_pytorch])
def test_without_level_starts(function: Any) -> None:
    value, shapes, starts, locations, weights = tensors_of(MSDA)
    expected = deformkit.multi_scale_deformable_attn(value, shapes, starts, locations, weights)
    for given in (shapes, shapes.int(), shapes.tolist(), [tuple(level) for level in shapes.tolist()]):
        assert torch.equal(function(value, given, locations, weights), expected)
    function(value, shapes, locations, weights).sum().backward()
    assert value.grad is not None


@pytest.mark.parametrize("function", [mmcv.MultiScaleDeformableAttnFunction, deformable_detr.MSDeformAttnFunction])
def test_apply(function: Any) -> None:
    tensors = tensors_of(MSDA)
    expected = deformkit.multi_scale_deformable_attn(*tensors)
    for result in (function.apply(*tensors), function.apply(*tensors, 64), function.apply(*tensors, im2col_step=1)):
        assert torch.equal(result, expected)
    result.sum().backward()
    assert all(t.grad is not None for t in (tensors[0], tensors[3], tensors[4]))


@pytest.mark.parametrize("points", [(3, 6, 3), (4, 4, 4), (1, 2, 5)])
def test_ragged_points(points: tuple[int, ...]) -> None:
    """Against one call per level."""
    torch.manual_seed(0)
    levels = [(7, 5), (3, 9), (3, 3)]
    value = torch.randn(2, sum(h * w for h, w in levels), 2, 8)
    locations, weights = torch.rand(2, 6, 2, sum(points), 2), torch.rand(2, 6, 2, sum(points))
    parts = [
        mmcv.multi_scale_deformable_attn_pytorch(v, [level], xy[:, :, :, None], w[:, :, :, None])
        for v, level, xy, w in zip(
            value.split([h * w for h, w in levels], 1), levels, locations.split(points, 3), weights.split(points, 3)
        )
    ]
    for shapes in (levels, torch.tensor(levels)):
        found = _msda.from_ragged(value, shapes, locations, weights, points)
        torch.testing.assert_close(found, sum(parts), rtol=1e-5, atol=1e-5)


def test_errors_name_the_callers_arguments() -> None:
    value, shapes, starts, locations, weights = tensors_of(MSDA)
    shapes_only, apply = mmcv.multi_scale_deformable_attn_pytorch, mmcv.MultiScaleDeformableAttnFunction.apply
    cases: list[tuple[Any, tuple[Any, ...], str]] = [
        (shapes_only, (value, shapes[:, :1], locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, shapes.flatten(), locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, shapes.double(), locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, [1, 2], locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, None, locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, shapes, locations, weights[1:]), "attention_weights"),
        (apply, (value, shapes, starts[1:], locations, weights), "value_level_start_index"),
        (_msda.from_ragged, (value, shapes, locations.flatten(3, 4), weights.flatten(3), [4, 4]), "sampling_locations"),
        (_msda.from_ragged, (value, shapes, locations.flatten(3, 4), weights, [4, 4, 4]), "attention_weights"),
        (_msda.from_ragged, (value, shapes, locations.flatten(3, 4), weights.flatten(3), [6, 6]), "num_points_list"),
    ]
    for function, arguments, name in cases:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            function(*arguments)
