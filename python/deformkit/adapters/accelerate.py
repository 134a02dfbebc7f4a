"""Puts the library's kernels into a model that has multi-scale deformable attention in one of the forms below.

Only the modules of the given model are touched, each by an attribute of its own; classes and other models stay as they are.
"""

from __future__ import annotations

import inspect
import types
from typing import Any, Callable

import torch

from .._msda import multi_scale_deformable_attn
from .._operator import renamed
from . import _msda

#: In place of an attribute that a module did not have itself.
_OF_ITS_CLASS = object()


def _on_cpu(fast: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """For a function whose first argument is `value`: `fast` for tensors in host memory, the original for others."""

    def replace(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(value: torch.Tensor, *arguments: Any, **named: Any) -> Any:
            return (fast if value.device.type == "cpu" else original)(value, *arguments, **named)

        call.deformkit_original = original  # type: ignore[attr-defined]
        return call

    return replace


def _shapes_only(value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any) -> Any:
    return _msda.from_shapes(value, value_spatial_shapes, sampling_locations, attention_weights)


def _with_ragged_points(original: Callable[..., Any]) -> Callable[..., Any]:
    """RT-DETRv2's and its successors'; method "discrete" takes the nearest cell and stays with the original."""

    def call(
        value: torch.Tensor,
        value_spatial_shapes: Any,
        sampling_locations: torch.Tensor,
        attention_weights: torch.Tensor,
        num_points_list: list[int],
        method: str = "default",
    ) -> torch.Tensor:
        arguments = (value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list)
        if method != "default" or value.device.type != "cpu":
            return original(*arguments, method)
        return _msda.from_ragged(*arguments)

    call.deformkit_original = original  # type: ignore[attr-defined]
    return call


def _function_class(original: Any) -> Any:
    """A torch.autograd.Function of which `apply` is used."""
    apply = _on_cpu(_msda.Function.apply)(original.apply)
    return type(original.__name__, (), {"apply": staticmethod(apply), "deformkit_original": original})


#: Functions that a module's forward calls by a global name, or that it holds in an attribute: how to replace them.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "multi_scale_deformable_attention": _on_cpu(_shapes_only),  # Mask2Former, OneFormer
    "multi_scale_deformable_attention_v2": _with_ragged_points,  # RT-DETRv2, D-FINE
    "multi_scale_deformable_attn_pytorch": _on_cpu(_shapes_only),  # mmcv
    "ms_deform_attn_core_pytorch": _on_cpu(_shapes_only),  # Deformable DETR and models that carry its code
    "MultiScaleDeformableAttnFunction": _function_class,
    "MSDeformAttnFunction": _function_class,
}
#: Modules that are nothing but the operator, by the names of forward's arguments: Deformable DETR, GroundingDINO, RT-DETR and
#: others in transformers.
OPERATOR_ARGUMENTS = [
    "value",
    "value_spatial_shapes",
    "value_spatial_shapes_list",
    "level_start_index",
    "sampling_locations",
    "attention_weights",
    "im2col_step",
]


def _operator_forward(
    self: torch.nn.Module,
    value: torch.Tensor,
    value_spatial_shapes: torch.Tensor,
    value_spatial_shapes_list: Any,
    level_start_index: torch.Tensor,
    sampling_locations: torch.Tensor,
    attention_weights: torch.Tensor,
    im2col_step: int,
) -> torch.Tensor:
    if value.device.type != "cpu":
        return type(self).forward(
            self,
            value,
            value_spatial_shapes,
            value_spatial_shapes_list,
            level_start_index,
            sampling_locations,
            attention_weights,
            im2col_step,
        )
    try:
        return multi_scale_deformable_attn(value, value_spatial_shapes, level_start_index, sampling_locations, attention_weights)
    except Exception as error:
        raise renamed(error, {"value_level_start_index": "level_start_index"}) from None


class Acceleration:
    """What accelerate() did to a model.

    replaced: name of a module -> what was replaced in it.
    left_alone: name of a module that looks like deformable attention -> why it was not touched.
    """

    def __init__(self) -> None:
        self.replaced: dict[str, str] = {}
        self.left_alone: dict[str, str] = {}
        self._undo: list[tuple[torch.nn.Module, str, Any]] = []

    def undo(self) -> None:
        """Puts the model back as it was."""
        while self._undo:
            module, attribute, before = self._undo.pop()
            if before is _OF_ITS_CLASS:
                delattr(module, attribute)
            else:
                setattr(module, attribute, before)

    def __enter__(self) -> Acceleration:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"replaced {len(self.replaced)} of {len(self.replaced) + len(self.left_alone)} deformable attentions"]
        lines += [f"  {name}: {what}" for name, what in self.replaced.items()]
        lines += [f"  {name} left alone: {why}" for name, why in self.left_alone.items()]
        return "\n".join(lines)

    __repr__ = __str__

    def _set(self, module: torch.nn.Module, attribute: str, new: Any) -> None:
        self._undo.append((module, attribute, vars(module).get(attribute, _OF_ITS_CLASS)))
        setattr(module, attribute, new)

    def _visit(self, name: str, module: torch.nn.Module) -> None:
        kind = type(module)
        held, called = _held_functions(module), _called_functions(kind.forward)
        new = {function: FUNCTIONS[function](original) for function, original in called.items()}
        forward = _with_globals(kind.forward, new) if new else None
        if _is_replaced(module):
            self.left_alone[name] = "it was replaced before"
        elif list(inspect.signature(kind.forward).parameters)[1:] == OPERATOR_ARGUMENTS:
            self._set(module, "forward", types.MethodType(_operator_forward, module))
            self.replaced[name] = f"{kind.__name__}.forward"
        elif "discrete" in (getattr(module, "method", None), getattr(module, "decoder_method", None)):
            self.left_alone[name] = "it takes the nearest cell, without interpolation"
        elif held:
            for attribute, function in held.items():
                self._set(module, attribute, FUNCTIONS[function.__name__](function))
                self.replaced[name] = function.__name__
        elif forward is not None:
            self._set(module, "forward", types.MethodType(forward, module))
            self.replaced[name] = ", ".join(new)
        elif not any(map(_is_replaced, module.modules())):
            self.left_alone[name] = f"{kind.__module__}.{kind.__qualname__} is in no form that deformkit knows"


def _is_candidate(module: torch.nn.Module) -> bool:
    return hasattr(module, "sampling_offsets") or type(module).__name__ == "MultiScaleDeformableAttention"


def _is_replaced(module: torch.nn.Module) -> bool:
    return "forward" in vars(module) or any(hasattr(value, "deformkit_original") for value in vars(module).values())


def _held_functions(module: torch.nn.Module) -> dict[str, Any]:
    """The functions above that lie in an attribute of the module, by the attribute's name."""
    return {
        attribute: value
        for attribute, value in vars(module).items()
        if isinstance(value, types.FunctionType) and value.__name__ in FUNCTIONS
    }


def _called_functions(forward: Any) -> dict[str, Any]:
    """The functions above that `forward`, under its decorators, calls by a global name."""
    forward = inspect.unwrap(forward)
    if not isinstance(forward, types.FunctionType):
        return {}
    used = forward.__globals__.keys() & set(forward.__code__.co_names) & FUNCTIONS.keys()
    return {name: forward.__globals__[name] for name in sorted(used)}


def _holds(cell: Any, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:  # empty
        return False


def _with_globals(function: Any, new: dict[str, Any]) -> Any:
    """The same function, seeing other values under some global names; None under a decorator that hides what it wraps."""
    if not isinstance(function, types.FunctionType):
        return None
    names, closure = {**function.__globals__, **new}, function.__closure__
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        inner, cells = _with_globals(wrapped, new), closure or ()
        if inner is None or not any(_holds(cell, wrapped) for cell in cells):
            return None
        names = function.__globals__
        closure = tuple(types.CellType(inner) if _holds(cell, wrapped) else cell for cell in cells)
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def accelerate(model: torch.nn.Module) -> Acceleration:
    """Makes `model` compute its multi-scale deformable attention with deformkit, on the CPU; elsewhere it goes on as before.

    Knows the attention of transformers (Deformable DETR, GroundingDINO, Mask2Former, OneFormer, RT-DETR, RT-DETRv2, D-FINE and
    what shares their code), of mmcv, and of models that carry Deformable DETR's own functions.

    Args:
        model: any module; it is changed in place, its parameters are not.

    Returns:
        What was replaced, what was left alone and why, and undo(). Also a context manager that undoes at its end.

    Raises:
        TypeError: not a torch.nn.Module.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model: expected a torch.nn.Module, got {type(model).__name__}")
    done = Acceleration()
    for name, module in reversed(list(model.named_modules())):  # parts come before what they are part of
        if _is_candidate(module):
            done._visit(name, module)
    done.replaced, done.left_alone = (dict(sorted(found.items())) for found in (done.replaced, done.left_alone))
    return done
