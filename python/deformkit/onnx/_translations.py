"""The operators for PyTorch's exporter: as nodes of their own, or in ONNX's standard operators."""

from __future__ import annotations

from typing import Any, Callable, Optional

import onnx
import onnxscript
from onnxscript import opset18 as op

from .. import torch as torch_side
from . import DOMAIN, NODES

_FLOAT, _DOUBLE, _INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.INT64
_STORAGE = [f"tensor({name})" for name in ("float", "float16", "bfloat16", "double")]
_TABLES = ["tensor(int32)", "tensor(int64)"]


def schema(operator: Any) -> onnx.defs.OpSchema:
    def kind(i: int, name: str) -> str:
        if i in operator.table_positions:
            return "I"
        return "T" if name in operator.gradients else "N"

    inputs = [onnx.defs.OpSchema.FormalParameter(name, kind(i, name)) for i, name in enumerate(operator.arguments)]
    allowed = {"T": _STORAGE, "I": _TABLES, "N": [*_STORAGE, *_TABLES, "tensor(int8)", "tensor(int16)"]}
    constraints = [(kind, allowed[kind], "") for kind in sorted({parameter.type_str for parameter in inputs})]
    output = onnx.defs.OpSchema.FormalParameter("output", "T")
    return onnx.defs.OpSchema(NODES[operator.name], DOMAIN, 1, inputs=inputs, outputs=[output], type_constraints=constraints)


def _as_node(operator: Any) -> Callable[..., Any]:
    node = onnxscript.values.Op(onnxscript.values.Opset(DOMAIN, 1), NODES[operator.name], schema(operator))

    def translate(first: Any, second: Any, third: Any, fourth: Any, fifth: Any) -> Any:
        return node(first, second, third, fourth, fifth)

    return translate


def _axes(tensor: Any, start: int, end: int) -> Any:
    return op.Shape(tensor, start=start, end=end)


def _counted(tensor: Any, axis: int, shape: list[int]) -> Any:
    """0, 1, 2 ... along an axis of `tensor`."""
    return op.Reshape(op.Range(0, op.Squeeze(_axes(tensor, axis, axis + 1)), 1), op.Constant(value_ints=shape))


def _and(*conditions: Any) -> Any:
    result = conditions[0]
    for condition in conditions[1:]:
        result = op.And(result, condition)
    return result


class _Cells:
    """The cells of all maps: rows of channels, and a row of zeros for what is outside."""

    def __init__(self, value: Any, shapes: Any, starts: Any, kind: int, last_axes: int = 0) -> None:
        """`value` [B, K, M, D] has a row for each (b, k, m), or [B, K, C] for each (b, k). Tables get more axes at their end."""
        channels = _axes(value, -1, 9)
        rows = op.Reshape(op.Cast(value, to=kind), op.Concat(op.Constant(value_ints=[-1]), channels, axis=0))
        zeros = op.CastLike(op.Expand(op.Constant(value_float=0.0), op.Reshape(channels, op.Constant(value_ints=[1]))), rows)
        self.outside = op.Squeeze(_axes(rows, 0, 1))
        self.rows = op.Concat(rows, op.Unsqueeze(zeros, 0), axis=0)
        self.keys = op.Squeeze(_axes(value, 1, 2))
        self.height, self.width = (op.Cast(op.Gather(shapes, i, axis=-1), to=kind) for i in (0, 1))
        self.starts = op.Cast(starts, to=_INT64)
        for _ in range(last_axes):
            self.height, self.width, self.starts = (op.Unsqueeze(t, -1) for t in (self.height, self.width, self.starts))

    def gather(self, x: Any, y: Any, inside: Any, row_of_key: Callable[[Any], Any]) -> tuple[Any, Any]:
        """The cells at whole x and y, and whether they are there."""
        place = op.Where(inside, y * self.width + x, op.CastLike(0.0, x))
        key = op.Cast(place, to=_INT64) + self.starts
        inside = _and(inside, op.GreaterOrEqual(key, 0), op.Less(key, self.keys))
        return op.Gather(self.rows, op.Where(inside, row_of_key(key), self.outside)), inside


def _weighted_sum(cells: Any, weights: Any) -> Any:
    """[B, Q, M, L, P, D] and [B, Q, M, L, P]: [B, Q, M, 1, D]."""
    cells = op.Reshape(cells, op.Concat(op.Constant(value_ints=[0, 0, 0, -1]), _axes(cells, -1, 9), axis=0))
    return op.MatMul(op.Reshape(weights, op.Constant(value_ints=[0, 0, 0, 1, -1])), cells)


def _bilinear(cells: _Cells, x: Any, y: Any, allowed: Optional[Any], row_of_key: Any, add: Callable[[Any, Any], Any]) -> Any:
    """The sum of add(cells, weights) over the four corners, x and y in cells."""
    left, top = op.Floor(x), op.Floor(y)
    right_share, bottom_share = x - left, y - top
    total = None
    for j in (0, 1):
        for i in (0, 1):
            column, row = (left + 1.0, top) if i else (left, top)
            row = row + 1.0 if j else row
            weight = (right_share if i else 1.0 - right_share) * (bottom_share if j else 1.0 - bottom_share)
            inside = _and(
                op.GreaterOrEqual(column, 0.0),
                op.Less(column, cells.width),
                op.GreaterOrEqual(row, 0.0),
                op.Less(row, cells.height),
            )
            corner, inside = cells.gather(column, row, inside if allowed is None else _and(inside, allowed), row_of_key)
            part = add(corner, op.Where(inside, weight, op.CastLike(0.0, weight)))
            total = part if total is None else total + part
    return total


def _kind(value: Any) -> int:
    return _DOUBLE if value.dtype == _DOUBLE else _FLOAT


def _row_of_key(value: Any) -> Callable[[Any], Any]:
    batch, heads = _counted(value, 0, [-1, 1, 1, 1, 1]), _counted(value, 2, [1, 1, -1, 1, 1])
    keys, count = op.Squeeze(_axes(value, 1, 2)), op.Squeeze(_axes(value, 2, 3))
    return lambda key: (batch * keys + key) * count + heads


def _decomposed_msda(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    kind = _kind(value)
    cells = _Cells(value, shapes, starts, kind, last_axes=1)
    locations, attention = op.Cast(locations, to=kind), op.Cast(weights, to=kind)
    x = op.Gather(locations, 0, axis=-1) * cells.width - 0.5
    y = op.Gather(locations, 1, axis=-1) * cells.height - 0.5
    total = _bilinear(cells, x, y, None, _row_of_key(value), lambda corner, weight: _weighted_sum(corner, weight * attention))
    return op.CastLike(op.Reshape(total, op.Constant(value_ints=[0, 0, -1])), value)


def _decomposed_gka(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    kind = _kind(value)
    cells = _Cells(value, shapes, starts, kind, last_axes=1)
    locations = op.Cast(locations, to=kind)
    infinity = op.CastLike(float("inf"), locations)

    def whole(axis: int, extent: Any) -> tuple[Any, Any]:
        """Rounded down and clamped is truncated and clamped."""
        there = op.Gather(locations, axis, axis=-1)
        inside = _and(op.Less(op.Abs(there), infinity), op.Greater(extent, 0.0))
        return op.Max(op.Min(op.Floor(there), extent - 1.0), op.CastLike(0.0, there)), inside

    (x, known_x), (y, known_y) = whole(0, cells.width), whole(1, cells.height)
    found, inside = cells.gather(x, y, _and(known_x, known_y), _row_of_key(value))
    attention = op.Cast(weights, to=kind)
    total = _weighted_sum(found, op.Where(inside, attention, op.CastLike(0.0, attention)))
    return op.CastLike(op.Reshape(total, op.Constant(value_ints=[0, 0, -1])), value)


def _decomposed_da(maps: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    kind = _kind(maps)
    cells = _Cells(maps, shapes, starts, kind)
    locations, weights = op.Cast(locations, to=kind), op.Cast(weights, to=kind)
    u, v = (op.Unsqueeze(op.Gather(locations, i, axis=-1), -1) for i in (0, 1))
    allowed = _and(op.Greater(u, 0.0), op.Less(u, 1.0), op.Greater(v, 0.0), op.Less(v, 1.0))
    batch, keys = _counted(maps, 0, [-1, 1, 1, 1, 1]), op.Squeeze(_axes(maps, 1, 2))
    groups = _axes(weights, -1, 9)
    ahead = op.Constant(value_ints=[0, 0, -1])  # what is summed becomes one axis
    grouped = op.Concat(ahead, groups, op.Div(_axes(maps, 2, 3), groups), axis=0)

    def add(corner: Any, weight: Any) -> Any:
        shares = op.Reshape(op.Unsqueeze(weight, -1) * weights, op.Concat(ahead, groups, axis=0))
        channels = op.Transpose(op.Reshape(corner, grouped), perm=[0, 1, 3, 2, 4])
        return op.MatMul(op.Unsqueeze(op.Transpose(shares, perm=[0, 1, 3, 2]), -2), channels)

    x, y = u * cells.width - 0.5, v * cells.height - 0.5
    total = _bilinear(cells, x, y, allowed, lambda key: batch * keys + key, add)
    return op.CastLike(op.Reshape(total, ahead), maps)


_DECOMPOSED = {
    "multi_scale_deformable_attn": _decomposed_msda,
    "deformable_aggregation": _decomposed_da,
    "geometric_kernel_attention": _decomposed_gka,
}


def translations(decompose: bool) -> dict[Callable[..., Any], Callable[..., Any]]:
    return {
        side.forward_op: _DECOMPOSED[name] if decompose else _as_node(side.operator)
        for name, side in torch_side.OPERATORS.items()
    }
