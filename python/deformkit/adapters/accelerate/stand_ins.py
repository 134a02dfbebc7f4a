"""What accelerate() puts in the place of functions and forwards. It is pickled and copied with its model."""

from __future__ import annotations

import dis
import functools
import inspect
import types
import warnings
from typing import Any, Callable, Optional

import torch

from ...torch import OPERATORS
from . import adapted, calls

_msda = OPERATORS["multi_scale_deformable_attn"]


class Function:
    """In the place of a function that computes the attention: it runs the library where the call fits, the original elsewhere."""

    def __init__(self, original: Callable[..., Any], names: tuple[str, ...], name: str) -> None:
        self.original = original
        self.names = names
        self.__name__ = name
        self.has_warned = False

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        given = dict(zip(self.names, arguments))
        given.update(named)
        fitted = None
        if len(given) == len(arguments) + len(named) and all(name in self.names for name in named):
            fitted = calls.fit(given) if torch.compiler.is_compiling() or not torch.jit.is_tracing() else _fit_traced(given)
        if fitted is not None:
            return _msda.forward(*fitted)
        if not self.has_warned and not torch.compiler.is_compiling() and not calls.is_elsewhere(given):
            self.has_warned = True
            met = calls.describe(given)
            warnings.warn(
                f"deformkit.accelerate: {self.__name__} goes on itself, called with {met}", RuntimeWarning, stacklevel=3
            )
        return self.original(*arguments, **named)


def _fit_traced(given: dict[str, Any]) -> Optional[tuple[torch.Tensor, ...]]:
    """While jit.trace warns of every comparison of extents: these do not go into the trace."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        return calls.fit(given)


class FunctionClass:
    """In the place of a torch.autograd.Function, of which `apply` is called."""

    def __init__(self, original: Any, names: tuple[str, ...]) -> None:
        self.original = original
        self.apply = Function(original.apply, names, original.__name__)


def stand_in(original: Any) -> Any:
    """For a function, a torch.autograd.Function, or a functools.partial of a function; None where its arguments are not those
    of the attention."""
    if isinstance(original, functools.partial):
        inner = stand_in(original.func)
        return None if inner is None else functools.partial(inner, *original.args, **original.keywords)
    if adapted.adapter_of(original) is not None:
        return adapted.stand_in(original)
    if isinstance(original, type):
        names = calls.names_of(getattr(original, "forward", original), without=1)
        return FunctionClass(original, names) if names else None
    names = calls.names_of(original)
    return Function(original, names, original.__name__) if names else None


class Forward:
    """In the place of a module's forward. What it runs is made of the module's class when it is first needed, so that a copy or
    a pickled model has its own."""

    def __init__(self, module: torch.nn.Module, make: Callable[[torch.nn.Module], Callable[..., Any]]) -> None:
        self.module = module
        self.make = make
        self.function: Optional[Callable[..., Any]] = make(module)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if self.function is None:
            self.function = self.make(self.module)
        return self.function(*arguments, **named)

    @property
    def only_rewritten(self) -> bool:
        """The sampling is replaced in a part of the module."""
        return isinstance(self.make, functools.partial) and self.make.keywords.get("base") is own_forward

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(types.MethodType(type(self.module).forward, self.module))

    @property
    def __code__(self) -> types.CodeType:
        """torch.export names it as where the model comes from."""
        return inspect.unwrap(type(self.module).forward).__code__

    def __getstate__(self) -> dict[str, Any]:
        return {"module": self.module, "make": self.make, "function": None}


def own_forward(module: torch.nn.Module) -> Callable[..., Any]:
    return types.MethodType(type(module).forward, module)


def operator_forward(module: torch.nn.Module) -> Callable[..., Any]:
    """For a module that is nothing but the operator."""
    kind = type(module)
    return Function(types.MethodType(kind.forward, module), calls.names_of(kind.forward, without=1), kind.__name__)


def redirected_forward(module: torch.nn.Module, names: tuple[str, ...]) -> Callable[..., Any]:
    """The module's own forward, calling stand-ins of the functions with these global names."""
    return types.MethodType(redirected(type(module).forward, names), module)


_PREFIX = "_deformkit_"


@functools.cache
def redirected(function: Any, names: tuple[str, ...]) -> Any:
    """The same function, calling _deformkit_<name> in the place of global names; None where that cannot be. The stand-ins lie
    beside what they stand for: with other globals, torch.compile could not tell two functions of the same code apart."""
    if not isinstance(function, types.FunctionType):
        return None
    code, closure = function.__code__, function.__closure__
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        inner, cells = redirected(wrapped, names), closure or ()
        if inner is None or not any(_holds(cell, wrapped) for cell in cells):
            return None
        closure = tuple(types.CellType(inner) if _holds(cell, wrapped) else cell for cell in cells)
    else:
        for name in names:
            uses = {instruction.opname for instruction in dis.get_instructions(code) if instruction.argval == name}
            if not uses or not all("GLOBAL" in use for use in uses):
                return None
            function.__globals__.setdefault(_PREFIX + name, stand_in(function.__globals__[name]))
        renamed = tuple(_PREFIX + name if name in names else name for name in code.co_names)
        code = code.replace(co_names=renamed)
    copy = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _holds(cell: Any, value: Any) -> bool:
    try:
        return cell.cell_contents is value
    except ValueError:  # empty
        return False
