"""Functions of other operators and other forms than Deformable DETR's: the adapters of the same names take their calls."""

from __future__ import annotations

import inspect
from typing import Any, Callable

import torch

from .. import maptr, msda_triton, sparse4d

#: By the original's name.
ADAPTERS: dict[str, Any] = {
    "GeometricKernelAttentionFunc": maptr.GeometricKernelAttentionFunc,
    "DeformableAggregationFunction": sparse4d.DeformableAggregationFunction,
    "deformable_aggregation_function": sparse4d.deformable_aggregation_function,
    "multiscale_deformable_attention": msda_triton.multiscale_deformable_attention,
}


def _arguments_of(function: Any) -> list[str]:
    """Their names; of a torch.autograd.Function those of forward() behind ctx."""
    is_class = isinstance(function, type)
    names = list(inspect.signature(function.forward if is_class else function).parameters)
    return names[1:] if is_class else names


def adapter_of(original: Any) -> Any:
    """None for what is not known by its name, or takes other arguments than what is."""
    adapter = ADAPTERS.get(getattr(original, "__name__", ""))
    if adapter is None or original is adapter or isinstance(original, type) != isinstance(adapter, type):
        return None
    try:
        same = [_arguments_of(function) for function in (original, adapter)]
    except (AttributeError, TypeError, ValueError):
        return None
    return adapter if same[0] == same[1] else None


class Adapted:
    """In the place of a function: the adapter where all tensors are in host memory, the original elsewhere."""

    def __init__(self, original: Callable[..., Any], adapter: Callable[..., Any], name: str) -> None:
        self.original = original
        self.adapter = adapter
        self.__name__ = name

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        tensors = [argument for argument in (*arguments, *named.values()) if isinstance(argument, torch.Tensor)]
        function = self.adapter if all(tensor.is_cpu for tensor in tensors) else self.original
        return function(*arguments, **named)


class AdaptedClass:
    """In the place of a torch.autograd.Function, of which `apply` is called."""

    def __init__(self, original: Any, adapter: Any) -> None:
        self.original = original
        self.apply = Adapted(original.apply, adapter.apply, original.__name__)


def stand_in(original: Any) -> Any:
    """None where there is no adapter."""
    adapter = adapter_of(original)
    if adapter is None:
        return None
    return AdaptedClass(original, adapter) if isinstance(original, type) else Adapted(original, adapter, original.__name__)
