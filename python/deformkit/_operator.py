"""What an operator is, said once: its arguments, their axes, its gradients. What differs between NumPy, PyTorch and others
follows from that."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, Optional

from . import _arrays, _native

OWN_THREADS = -1  # the number that deformkit.set_num_threads or the environment set

OPERATORS: list[Operator] = []


def renamed(error: Exception, names: Mapping[str, str]) -> Exception:
    """An error that speaks of the arguments of a function below, in the names that its caller knows: `names` of each there."""
    if type(error) not in (TypeError, ValueError, RuntimeError, MemoryError):
        return error
    return type(error)(re.sub(r"\b\w+\b", lambda word: names.get(word[0], word[0]), str(error)))


class Operator:
    """
    name: of the public function and of the PyTorch operator
    native: <native>_forward and <native>_backward are the C functions
    arguments: the axes of each, in the order of the C function. Those without a batch axis, B, are tables of integers
    output: its axes; "*" where two were joined
    gradients: arguments that have one, in the order of the C function; all of these have the type of the result
    native_names: the C function's, of the arguments that it calls otherwise
    divisible: (axis, by axis)
    """

    def __init__(
        self,
        name: str,
        *,
        native: str,
        arguments: dict[str, str],
        output: str,
        gradients: tuple[str, ...],
        native_names: Mapping[str, str] = {},
        divisible: Optional[tuple[str, str]] = None,
    ) -> None:
        self.name = name
        self.native = native
        self.arguments = tuple(arguments)
        self.axes = {name: axes.split() for name, axes in arguments.items()}
        self.output_axes = output.split()
        self.gradients = gradients
        self.divisible = divisible
        self.native_forward = getattr(_native, f"{native}_forward")
        self.native_backward = getattr(_native, f"{native}_backward")
        self.table_positions = tuple(i for i, name in enumerate(arguments) if self.axes[name][0] != "B")
        self.gradient_positions = tuple(map(self.arguments.index, gradients))
        #: where an axis comes first: argument, position
        self.origin: dict[str, tuple[str, int]] = {}
        for argument, axes in self.axes.items():
            for position, axis in enumerate(axes):
                self.origin.setdefault(axis, (argument, position))
        extents = [
            " * ".join("{}.shape[{}]".format(*self.origin[factor]) for factor in axis.split("*")) for axis in self.output_axes
        ]
        #: From the arguments. May raise anything where they are wrong, which the library then explains. As fast as by hand.
        self.output_shape: Callable[..., tuple[Any, ...]] = eval(f"lambda {', '.join(arguments)}: ({', '.join(extents)})")
        self._own_names = {"NULL": "None", **{native_names[own]: own for own in native_names}}
        self.sides: dict[type, Any] = {}  # by the type of an array that was met
        OPERATORS.append(self)

    def forward(self, *arrays: Any) -> Any:
        side = self._side(arrays)
        if side is not None:
            return side.forward(*arrays)
        like = arrays[0]
        try:
            output = _arrays.empty(self.output_shape(*arrays), like)
        except Exception:
            self.call(self.native_forward, arrays, None)  # raises: the library finds what is wrong
            raise
        self.call(self.native_forward, arrays, output)
        return _arrays.finish(output, like)

    def backward(self, *arrays: Any, grad_output: Any, wanted: Optional[Iterable[str]]) -> tuple[Any, ...]:
        """A gradient for each of self.gradients: None where it is not wanted."""
        flags = self._flags(wanted)
        side = self._side((*arrays, grad_output))
        if side is not None:
            gradients = iter(side.backward(*arrays, grad_output, flags))
            return tuple(next(gradients) if flag else None for flag in flags)
        like = [arrays[i] for i in self.gradient_positions]
        try:
            results = [_arrays.empty(array.shape, array) if flag else None for array, flag in zip(like, flags)]
        except Exception:
            self.call(self.native_backward, arrays, grad_output, *(None for _ in flags))
            raise
        self.call(self.native_backward, arrays, grad_output, *results)
        return tuple(None if result is None else _arrays.finish(result, array) for result, array in zip(results, like))

    def call(self, native: Any, arrays: Sequence[Any], *others: Any) -> None:
        try:
            native(OWN_THREADS, *arrays, *others)
        except Exception as error:
            raise self.explained(error) from None

    def explained(self, error: Exception) -> Exception:
        """An error of the C functions in the names of the Python functions."""
        not_an_array = re.match(r"argument (\d+)(: .*)", str(error), re.S)
        if not_an_array:
            names = (*self.arguments, "grad_output")
            return TypeError(names[int(not_an_array[1])] + not_an_array[2])
        return renamed(error, self._own_names)

    def _flags(self, wanted: Optional[Iterable[str]]) -> list[bool]:
        if wanted is None:
            return [True] * len(self.gradients)
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in names:
            if name not in self.gradients:
                raise ValueError(f"wanted: expected names out of {', '.join(self.gradients)}, got {name!r}")
        return [name in names for name in self.gradients]

    def _side(self, arrays: tuple[Any, ...]) -> Any:
        """This operator in deformkit.torch if the first array is a tensor, in deformkit.jax if JAX traces any; or None."""
        side = self._side_of(type(arrays[0]))
        if side is None and "jax" in sys.modules:
            for array in arrays[1:]:
                if isinstance(array, sys.modules["jax"].core.Tracer):
                    return self._side_of(type(array))
        return side

    def _side_of(self, kind: type) -> Any:
        if kind not in self.sides:
            self.sides[kind] = None
            for base in kind.__mro__:
                framework = base.__module__.split(".")[0]
                if (framework, base.__name__) in (("torch", "Tensor"), ("torch", "Proxy"), ("jax", "Tracer")):
                    # The framework is there, so this does not import it.
                    side = importlib.import_module(f".{framework}", __package__)
                    self.sides[kind] = side.OPERATORS[self.name]
        return self.sides[kind]
