"""Calls of the attention's functions: which argument is what, by name, and how it lies, by shape."""

from __future__ import annotations

import inspect
import math
from typing import Any, Callable, Optional

import torch

from ... import _checks
from .. import _msda

REQUIRED = frozenset(("value", "value_spatial_shapes", "sampling_locations", "attention_weights"))
OPTIONAL = frozenset(
    (
        "value_spatial_shapes_list",  # the same as numbers: transformers
        "value_spatial_shapes_hw",  # RF-DETR
        "value_level_start_index",
        "level_start_index",
        "num_points_list",
        "method",
        "im2col_step",
    )
)


def names_of(function: Callable[..., Any], without: int = 0) -> tuple[str, ...]:
    """Of a function's arguments from number `without` on, if they are those of multi-scale deformable attention; else none."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[without:]
    except (TypeError, ValueError):
        return ()
    names = tuple(parameter.name for parameter in parameters)
    kinds = {parameter.kind for parameter in parameters}
    known = REQUIRED <= set(names) <= REQUIRED | OPTIONAL and kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return names if known else ()


def is_elsewhere(given: dict[str, Any]) -> bool:
    """Not in host memory: nothing to warn of."""
    value = given["value"]
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return isinstance(first, torch.Tensor) and first.device.type != "cpu"


def describe(given: dict[str, Any]) -> str:
    """A call's arguments by name, as a warning tells them."""

    def told(argument: Any) -> str:
        if isinstance(argument, torch.Tensor):
            return f"{argument.dtype} {list(argument.shape)}".removeprefix("torch.")
        if isinstance(argument, (list, tuple)):
            return "[" + ", ".join(map(told, argument)) + "]"
        return repr(argument)

    return ", ".join(f"{name} {told(argument)}" for name, argument in given.items())


def fit(given: dict[str, Any]) -> Optional[tuple[torch.Tensor, ...]]:
    """What the operator takes, from a call's arguments by name; None if they are in none of these forms, for B examples, Q
    queries, M heads, D channels:

    value: [B, K, M, D], [B, M, D, K], or a list of levels [B, M, D, H * W]
    sampling_locations: [B, Q, M, L, P, 2], or [B, Q, M, N, 2] with N points of all levels together
    attention_weights: [B, Q, M, L, P] or [B, Q, M, N]
    """
    if not given.keys() >= REQUIRED or given.get("method", "default") != "default":
        return None
    value, locations, weights = given["value"], given["sampling_locations"], given["attention_weights"]
    is_list = isinstance(value, (list, tuple)) and len(value) > 0
    tensors = (*value, locations, weights) if is_list else (value, locations, weights)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return None
    if any(tensor.device.type != "cpu" or tensor.layout != torch.strided for tensor in tensors):
        return None
    if not _types_go_together(*tensors) or any(tensor.ndim != 4 for tensor in tensors[:-2]):
        return None
    if locations.ndim not in (5, 6) or weights.ndim not in (4, 5) or locations.shape[-1] != 2:
        return None
    heads = locations.shape[2]
    shapes, starts = _tables(given)
    if shapes is None or locations.shape[:3] != weights.shape[:3]:
        return None
    value = torch.cat([level.permute(0, 3, 1, 2) for level in value], 1) if is_list else _cells_first(value, heads, shapes)
    if value is None or value.shape[2] != heads or value.shape[0] != locations.shape[0]:
        return None
    points = given.get("num_points_list")
    samples = _samples_of(list(locations.shape[3:-1]), list(weights.shape[3:]), shapes.shape[0], points)
    if samples is None:
        return None
    if points is not None and len(samples) == 1:  # levels of different numbers of points
        return _msda.ragged(value, shapes, starts, locations, weights, points)
    locations = locations.reshape(*locations.shape[:3], *samples, 2)
    return value, shapes, starts, locations, weights.reshape(*weights.shape[:3], *samples)


def _types_go_together(*tensors: torch.Tensor) -> bool:
    dtypes = [tensor.dtype for tensor in tensors]
    if torch.is_autocast_enabled("cpu"):  # which promotes
        return all(dtype in _checks.STORAGE for dtype in dtypes)
    return dtypes[0] in _checks.STORAGE and dtypes[1:] == dtypes[:1] * (len(dtypes) - 1)


def _tables(given: dict[str, Any]) -> tuple[Any, Any]:
    """[L, 2] (H, W) and [L] first cells; None where there is nothing to make them of. From numbers, if there are any: what
    functions go by that are given both."""
    shapes = None
    for name in ("value_spatial_shapes_list", "value_spatial_shapes_hw", "value_spatial_shapes"):
        if shapes is None:
            shapes = given.get(name)
    if isinstance(shapes, torch.Tensor):
        if shapes.ndim != 2 or shapes.shape[1] != 2 or shapes.dtype not in _checks.INDEX or shapes.device.type != "cpu":
            return None, None
        starts = given.get("value_level_start_index")
        if isinstance(starts, torch.Tensor) and starts.shape == shapes.shape[:1] and starts.dtype in _checks.INDEX:
            return shapes, starts
    try:
        return _msda.tables(shapes)
    except (TypeError, ValueError):
        return None, None


def _cells_first(value: torch.Tensor, heads: Any, shapes: torch.Tensor) -> Any:
    """[B, K, M, D] of that or of [B, M, D, K]; None if it is neither, or both."""
    first, last = value.shape[2] == heads, value.shape[1] == heads
    if first and last:
        if torch.compiler.is_compiling():
            return None
        cells = int(shapes.prod(1).sum())
        first, last = value.shape[1] == cells, value.shape[3] == cells
    if first == last:
        return None
    return value if first else value.permute(0, 3, 1, 2)


def _samples_of(first: list[Any], second: list[Any], levels: int, points: Any) -> Optional[list[Any]]:
    """[L, P], or [N] where levels have different numbers of points, from the last axes of the locations and of the weights; None
    if they do not fit."""
    total = math.prod(first)
    if levels == 0 or math.prod(second) != total or (len(first) == len(second) == 2 and first != second):
        return None
    apart = first if len(first) == 2 else second
    if points is not None:
        if len(points) != levels or sum(points) != total or min(points) < 1:
            return None
        if any(count != points[0] for count in points):
            return [total] if len(apart) == 1 else None
    if len(apart) == 2:
        return apart if apart[0] == levels else None
    return [levels, total // levels] if total % levels == 0 else None
