"""What the library refuses, refused in the same order and words where there is no data to hand to it: while PyTorch traces."""

from __future__ import annotations

from typing import Any

import torch

from . import _native
from ._operator import Operator

STORAGE = tuple(getattr(torch, name) for name in _native.storage_types())
INDEX = (torch.int32, torch.int64)
_NUMBERS = (*STORAGE, torch.int8, torch.int16, torch.int32, torch.int64)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _list(dtypes: tuple[torch.dtype, ...]) -> str:
    return ", ".join(map(_name, dtypes))


def _device(tensor: torch.Tensor) -> str:
    return f"CUDA device {tensor.device.index}" if tensor.is_cuda else "host memory"


def _require(holds: Any, name: str, expected: str, got: Any) -> None:
    """`holds` may be symbolic: it then becomes a guard."""
    torch._check_value(holds, lambda: f"{name}: expected {expected}, got {got}")


def _require_dtype(name: str, tensor: torch.Tensor, allowed: tuple[torch.dtype, ...], expected: str) -> None:
    if tensor.dtype not in allowed:
        raise TypeError(f"{name}: expected {expected}, got {_name(tensor.dtype)}")


def _require_axes(name: str, tensor: torch.Tensor, counts: list[int]) -> None:
    if tensor.device.type not in ("cpu", "cuda", "meta"):
        device = int(tensor.__dlpack_device__()[0])
        raise ValueError(
            f"{name}: expected memory of the host, CUDA or OpenCL (DLPack device types 1, 2, 4), got DLPack device type {device}"
        )
    _require(tensor.ndim in counts, name, " or ".join(map(str, counts)) + " axes", tensor.ndim)


def _require_extents(name: str, tensor: torch.Tensor, extents: list[tuple[Any, str]]) -> None:
    for i, (extent, meaning) in enumerate(extents):
        _require(tensor.shape[i] == extent, name, f"shape[{i}] == {extent} ({meaning})", list(tensor.shape))


def check_inputs(operator: Operator, tensors: tuple[torch.Tensor, ...]) -> None:
    named = dict(zip(operator.arguments, tensors))
    first = operator.arguments[0]
    for name, tensor in named.items():
        _require_axes(name, tensor, [len(operator.axes[name])])
    for name, tensor in named.items():
        same = tensor.device == tensors[0].device or "meta" in (tensor.device.type, tensors[0].device.type)
        _require(same, name, f"{_device(tensors[0])} as {first}", _device(tensor))
    for i, (name, tensor) in enumerate(named.items()):
        if i == 0:
            _require_dtype(name, tensor, STORAGE, f"one of {_list(STORAGE)}")
        elif i in operator.table_positions:
            _require_dtype(name, tensor, INDEX, "int32 or int64")
        elif name in operator.gradients:
            _require_dtype(name, tensor, (tensors[0].dtype,), f"{_name(tensors[0].dtype)} as {first}")
        else:
            _require_dtype(name, tensor, _NUMBERS, f"one of {_list(_NUMBERS)}")
    for i, (name, tensor) in enumerate(named.items()):
        pair = "height and width" if i in operator.table_positions else "x and y"
        extents = [(2, pair) if axis == "2" else _extent(operator, named, axis) for axis in operator.axes[name]]
        _require_extents(name, tensor, extents)
    if operator.divisible:
        axis, by = operator.divisible
        extent, meaning = _extent(operator, named, axis)
        name, position = operator.origin[by]
        divisor = named[name].shape[position]
        _require(
            extent == 0 if divisor == 0 else extent % divisor == 0,
            name,
            f"a number of {by}, shape[{position}], that divides the channels, {extent}{meaning.removeprefix(axis)}",
            divisor,
        )


def _extent(operator: Operator, named: dict[str, torch.Tensor], axis: str) -> tuple[Any, str]:
    """Of an axis, which two may have been joined to; and where it comes from."""
    factors = axis.split("*")
    extent: Any = 1
    for factor in factors:
        name, position = operator.origin[factor]
        extent = extent * named[name].shape[position]
    if len(factors) > 1:
        return extent, f"{' * '.join(factors)} of {name}"
    return extent, f"{axis} = {name}.shape[{position}]"


def check_grad_output(operator: Operator, tensors: tuple[torch.Tensor, ...], grad_output: torch.Tensor) -> None:
    """After check_inputs(). Joined axes may come apart."""
    named = dict(zip(operator.arguments, tensors))
    joined = operator.output_axes
    apart = [factor for axis in joined for factor in axis.split("*")]
    forms = [joined] if joined == apart else [joined, apart]
    _require_axes("grad_output", grad_output, [len(form) for form in forms])
    first = operator.arguments[0]
    _require_dtype("grad_output", grad_output, (tensors[0].dtype,), f"{_name(tensors[0].dtype)} as {first}")
    axes = joined if grad_output.ndim == len(joined) else apart
    _require_extents("grad_output", grad_output, [_extent(operator, named, axis) for axis in axes])
