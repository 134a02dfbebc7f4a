"""Multi-scale deformable attention from what the various callers have: tables as tensors or lists, level starts or not."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from .._functions import OperatorFunction, Signature
from .._msda import OPERATOR, multi_scale_deformable_attn


@functools.lru_cache(maxsize=256)
def _tables(levels: tuple[tuple[int, int], ...]) -> tuple[torch.Tensor, torch.Tensor]:
    starts = [0]
    for height, width in levels:
        starts.append(starts[-1] + height * width)
    return torch.tensor(levels, dtype=torch.int64).reshape(-1, 2), torch.tensor(starts[:-1], dtype=torch.int64)


def tables(spatial_shapes: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """[L, 2] (H, W) and [L] first cells, of levels that lie one after the other."""
    if isinstance(spatial_shapes, torch.Tensor):
        if spatial_shapes.ndim != 2:
            return spatial_shapes, spatial_shapes.new_zeros(0)  # which the operator refuses
        ends = spatial_shapes.prod(1).cumsum(0)
        return spatial_shapes, torch.cat((ends.new_zeros(1), ends[:-1])).to(spatial_shapes.dtype)
    try:
        levels = tuple((int(height), int(width)) for height, width in spatial_shapes)
    except (TypeError, ValueError) as error:
        raise type(error)(f"value_spatial_shapes: expected (H, W) of each level, got {spatial_shapes!r}") from None
    if torch.compiler.is_compiling():
        return _tables.__wrapped__(levels)
    return _tables(levels)


def from_shapes(
    value: torch.Tensor, value_spatial_shapes: Any, sampling_locations: torch.Tensor, attention_weights: torch.Tensor
) -> torch.Tensor:
    """[B, K, M, D], (H, W) of each level, [B, Q, M, L, P, 2], [B, Q, M, L, P]: [B, Q, M * D].

    The result has the type that PyTorch's operators make, of which the originals consist: the wider one of value and weights, and
    under autocast at least float32."""
    shapes, starts = tables(value_spatial_shapes)
    if torch.is_autocast_enabled("cpu"):
        output = multi_scale_deformable_attn(value, shapes, starts, sampling_locations, attention_weights)
        return output.to(torch.promote_types(output.dtype, torch.float32))
    if value.dtype != attention_weights.dtype and value.is_floating_point() and attention_weights.is_floating_point():
        wider = torch.promote_types(value.dtype, attention_weights.dtype)
        value, sampling_locations, attention_weights = (t.to(wider) for t in (value, sampling_locations, attention_weights))
    return multi_scale_deformable_attn(value, shapes, starts, sampling_locations, attention_weights)


def from_ragged(
    value: torch.Tensor,
    value_spatial_shapes: Any,
    sampling_locations: torch.Tensor,
    attention_weights: torch.Tensor,
    num_points_list: Sequence[int],
) -> torch.Tensor:
    """Levels of different numbers of points: locations [B, Q, M, N, 2], weights [B, Q, M, N], N points of all
    levels together."""
    points = num_points_list
    for name, tensor, ndim in (
        ("sampling_locations", sampling_locations, 5),
        ("attention_weights", attention_weights, 4),
    ):
        if tensor.ndim != ndim or tensor.shape[3] != sum(points):
            expected = f"{ndim} axes, the fourth of {sum(points)} (the sum of num_points_list)"
            raise ValueError(f"{name}: expected {expected}, got {list(tensor.shape)}")
    if isinstance(value_spatial_shapes, torch.Tensor):
        value_spatial_shapes = value_spatial_shapes.tolist()
    shapes, starts = tables(value_spatial_shapes)
    if len(shapes) != len(points):
        raise ValueError(f"num_points_list: expected {len(shapes)} (levels of value_spatial_shapes), got {len(points)}")
    return multi_scale_deformable_attn(*ragged(value, shapes, starts, sampling_locations, attention_weights, points))


def ragged(
    value: torch.Tensor,
    shapes: torch.Tensor,
    starts: torch.Tensor,
    locations: torch.Tensor,
    weights: torch.Tensor,
    points: Sequence[int],
) -> tuple[torch.Tensor, ...]:
    """from_ragged's as the operator's: a level with twice as many points counts as two levels over the same cells."""
    step = math.gcd(*points)
    levels = [level for level, count in enumerate(points) for _ in range(count // step)]
    if len(levels) != len(points):
        shapes, starts = shapes[levels], starts[levels]
    split = (len(levels), step)
    return value, shapes, starts, locations.unflatten(3, split), weights.unflatten(3, split)


SIGNATURE = Signature(OPERATOR, OPERATOR.arguments, options=("im2col_step",))


class Function(OperatorFunction):
    """apply() computes in the type of `value`, under autocast as well. im2col_step, the number of examples that the original
    works on at a time, has no effect."""

    signature = SIGNATURE

    @staticmethod
    def forward(
        ctx: Any,
        value: torch.Tensor,
        value_spatial_shapes: torch.Tensor,
        value_level_start_index: torch.Tensor,
        sampling_locations: torch.Tensor,
        attention_weights: torch.Tensor,
        im2col_step: Any = None,
    ) -> torch.Tensor:
        return SIGNATURE.forward(ctx, value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        return SIGNATURE.backward(ctx, grad_output)
