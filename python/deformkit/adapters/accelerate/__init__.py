"""Puts the library's kernels into a model that has multi-scale deformable attention in one of the forms below.

Only the modules of the given model are touched, each by an attribute of its own; classes and other models stay as they are.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

import torch

from . import adapted, attentions, calls, stand_ins

#: In place of an attribute that a module did not have itself.
_OF_ITS_CLASS = object()
#: Functions that a module's forward calls by a global name, or that it holds in an attribute.
FUNCTIONS = frozenset(
    (
        "multi_scale_deformable_attention",  # Mask2Former, OneFormer
        "multi_scale_deformable_attention_v2",  # RT-DETRv2, D-FINE
        "multi_scale_deformable_attn_pytorch",  # mmcv, detrex, ultralytics
        "ms_deform_attn_core_pytorch",  # Deformable DETR and models that carry its code, RF-DETR
        "deformable_attention_core_func",  # the authors' RT-DETR
        "deformable_attention_core_func_v2",  # the authors' RT-DETRv2 and D-FINE
        "MultiScaleDeformableAttnFunction",
        "MultiScaleDeformableAttnFunction_fp32",  # BEVFormer
        "MultiScaleDeformableAttnFunction_fp16",
        "MSDeformAttnFunction",
    )
) | frozenset(adapted.ADAPTERS)  # MapTR, Sparse4D, msda-triton


class Acceleration:
    """What accelerate() did to a model.

    replaced: name of a module -> what was replaced in it.
    left_alone: name of a module that looks like deformable attention -> why it was not touched.
    rewritten: names of modules whose arithmetic around the sampling was replaced as well.
    """

    def __init__(self) -> None:
        self.replaced: dict[str, str] = {}
        self.left_alone: dict[str, str] = {}
        self.rewritten: list[str] = []
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
        lines += [f"  {name}: locations and masks as well" for name in self.rewritten]
        return "\n".join(lines)

    __repr__ = __str__

    def _set(self, module: torch.nn.Module, attribute: str, new: Any) -> None:
        self._undo.append((module, attribute, vars(module).get(attribute, _OF_ITS_CLASS)))
        setattr(module, attribute, new)

    def _visit(self, name: str, module: torch.nn.Module) -> None:
        kind = type(module)
        held, called = _held_functions(module), _called_functions(kind.forward)
        if _is_replaced(module):
            self.left_alone[name] = "it was replaced before"
        elif isinstance(vars(module).get("forward"), stand_ins.Forward):
            return  # a part of it was replaced before
        elif "forward" in vars(module) and not held:
            self.left_alone[name] = "it has a forward of its own, not its class's"
        elif calls.names_of(kind.forward, without=1):
            self._set(module, "forward", stand_ins.Forward(module, stand_ins.operator_forward))
            self.replaced[name] = f"{kind.__name__}.forward"
        elif "discrete" in (getattr(module, "method", None), getattr(module, "decoder_method", None)):
            self.left_alone[name] = "it takes the nearest cell, without interpolation"
        elif held:
            for attribute, function in held.items():
                self._set(module, attribute, stand_ins.stand_in(function))
                self.replaced[name] = _name_of(function)
        elif called and stand_ins.redirected(kind.forward, called) is not None:
            self._set(module, "forward", stand_ins.Forward(module, functools.partial(stand_ins.redirected_forward, names=called)))
            self.replaced[name] = ", ".join(called)
        elif not any(map(_is_replaced, module.modules())):
            self.left_alone[name] = f"{kind.__module__}.{kind.__qualname__} is in no form that deformkit knows"

    def _rewrite(self, name: str, module: torch.nn.Module) -> None:
        """After _visit() of the module and its parts."""
        forward = vars(module).get("forward")
        if forward is None and any(map(_is_replaced, module.children())):
            base: Any = stand_ins.own_forward
        elif isinstance(forward, stand_ins.Forward) and name in self.replaced:
            base = forward.make
        else:
            return
        form = attentions.form_of(module, base)
        if form is not None:
            make = functools.partial(attentions.rewritten_forward, form=form, base=base)
            self._set(module, "forward", stand_ins.Forward(module, make))
            self.rewritten.append(name)


def _is_candidate(module: torch.nn.Module) -> bool:
    kind = type(module)
    if hasattr(module, "sampling_offsets") or kind.__name__ == "MultiScaleDeformableAttention":
        return True
    return bool(_held_functions(module) or _called_functions(kind.forward))


def _is_replaced(module: torch.nn.Module) -> bool:
    forward = vars(module).get("forward")
    if isinstance(forward, stand_ins.Forward):
        return not forward.only_rewritten
    kinds = (stand_ins.Function, adapted.Adapted)
    return any(isinstance(value, kinds) for value in map(_unbound, vars(module).values()))


def _unbound(function: Any) -> Any:
    """What a functools.partial calls in the end."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _name_of(function: Any) -> str:
    return getattr(_unbound(function), "__name__", "")


def _is_known(value: Any) -> bool:
    return _name_of(value) in FUNCTIONS and stand_ins.stand_in(value) is not None


def _held_functions(module: torch.nn.Module) -> dict[str, Any]:
    """The functions above that lie in an attribute of the module, by the attribute's name."""
    return {attribute: value for attribute, value in vars(module).items() if _is_known(value)}


def _called_functions(forward: Any) -> tuple[str, ...]:
    """The functions above that `forward`, under its decorators, calls by a global name."""
    forward = inspect.unwrap(forward)
    if not isinstance(forward, types.FunctionType):
        return ()
    names = sorted(forward.__globals__.keys() & set(forward.__code__.co_names))
    return tuple(name for name in names if _is_known(forward.__globals__[name]))


def accelerate(model: torch.nn.Module) -> Acceleration:
    """Makes `model` compute its multi-scale deformable attention with deformkit, on the CPU; elsewhere it goes on as before.

    Knows the attention of transformers (Deformable DETR, GroundingDINO, Mask2Former, OneFormer, RT-DETR, RT-DETRv2, D-FINE and
    what shares their code), of mmcv, ultralytics and rfdetr, of the authors' RT-DETR, RT-DETRv2, D-FINE, BEVFormer, Sparse4D
    and MapTR, of msda-triton, and of models that carry Deformable DETR's own functions. A call with tensors of a form that is
    not known goes to the model's own code, with one warning. What is saved, copied or pickled stays accelerated; loading it
    needs deformkit.

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
            done._rewrite(name, module)
    done.rewritten.sort()
    done.replaced, done.left_alone = (dict(sorted(found.items())) for found in (done.replaced, done.left_alone))
    return done
