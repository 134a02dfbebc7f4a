"""The operators in JAX, inside jax.jit, jax.grad and jax.vmap: calls of XLA, with gradients.

deformkit imports this by itself when it meets a traced array. Import it by hand to run a program that jax.export saved.
"""

from __future__ import annotations

import functools
from typing import Any, Optional

import jax
import numpy as np
from jax import numpy as jnp

from . import _native
from ._operator import OPERATORS as _DESCRIPTIONS
from ._operator import OWN_THREADS, Operator

_handlers = _native.xla_handlers()
_refuse = _handlers.pop("refuse")
for _name, _handler in _handlers.items():
    jax.ffi.register_ffi_target(f"deformkit_{_name}", _handler, platform="cpu")
    for _platform in ("CUDA", "ROCM"):
        jax.ffi.register_ffi_target(f"deformkit_{_name}", _refuse, platform=_platform)


class JaxOperator:
    """An operator's JAX side: at least one of the arrays is traced."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.differentiable = jax.custom_vjp(self.mapped("forward", None))
        self.differentiable.defvjp(self.forward_and_save, self.differentiate, symbolic_zeros=True)
        self.call_backward = functools.cache(self.backward_of)

    def forward(self, *arrays: Any) -> Any:
        return self.differentiable(*self.checked(arrays, None))

    def backward(self, *arguments: Any) -> list[Any]:
        *arrays, flags = arguments
        return list(self.call_backward(tuple(flags))(*self.checked(tuple(arrays), flags)))

    def forward_and_save(self, *arguments: Any) -> tuple[Any, Any]:
        """custom_vjp's forward pass. What is wanted has to be known while JAX traces: the structure of what is saved tells it.
        The call can be differentiated again: not what comes of the backward, but what else is made of its result."""
        arrays = tuple(argument.value for argument in arguments)
        wanted = tuple(() if arguments[i].perturbed else None for i in self.operator.gradient_positions)
        return self.differentiable(*arrays), (arrays, wanted)

    def differentiate(self, saved: Any, grad_output: Any) -> tuple[Any, ...]:
        arrays, wanted = saved
        if isinstance(grad_output, jax.custom_derivatives.SymbolicZero):
            grad_output = jnp.zeros(grad_output.shape, grad_output.dtype)
        flags = tuple(flag is not None for flag in wanted)
        gradients: list[Any] = [None] * len(arrays)
        for i, gradient in zip(self.positions(flags), self.call_backward(flags)(*arrays, grad_output)):
            gradients[i] = gradient
        return tuple(gradients)

    def positions(self, flags: tuple[bool, ...]) -> list[int]:
        return [i for i, flag in zip(self.operator.gradient_positions, flags) if flag]

    def backward_of(self, flags: tuple[bool, ...]) -> Any:
        """(*arrays, grad_output) -> the gradients that are wanted."""
        call = self.mapped("backward", flags)

        def refuse(*_: Any) -> Any:
            raise RuntimeError(f"deformkit.{self.operator.name}: second derivatives are not implemented")

        once = jax.custom_vjp(call)
        once.defvjp(lambda *arrays: (once(*arrays), None), refuse)
        return once

    def mapped(self, direction: str, flags: Optional[tuple[bool, ...]]) -> Any:
        """A call of XLA that jax.vmap can map: the mapped axis is folded into the batch; where the tables are mapped as well, one
        call comes after the other."""
        name = f"deformkit_{self.operator.native}_{direction}"
        tables = self.operator.table_positions

        def results(arrays: tuple[Any, ...]) -> Any:
            if flags is None:
                return jax.ShapeDtypeStruct(self.operator.output_shape(*arrays), arrays[0].dtype)
            return tuple(jax.ShapeDtypeStruct(arrays[i].shape, arrays[i].dtype) for i in self.positions(flags))

        @jax.custom_batching.custom_vmap
        def call(*arrays: Any) -> Any:
            if flags is None:
                return jax.ffi.ffi_call(name, results(arrays))(*arrays)
            if not any(flags):
                return ()
            mask = sum(flag << bit for bit, flag in enumerate(flags))
            return jax.ffi.ffi_call(name, results(arrays))(*arrays, wanted=np.int32(mask))

        @call.def_vmap
        def map_call(size: int, mapped: Any, *arrays: Any) -> tuple[Any, Any]:
            out_mapped: Any = True if flags is None else (True,) * sum(flags)
            if any(mapped[i] for i in tables):
                moving = tuple(a for a, m in zip(arrays, mapped) if m)

                def one(parts: Any) -> Any:
                    part = iter(parts)
                    return call(*(next(part) if m else a for a, m in zip(arrays, mapped)))

                return jax.lax.map(one, moving), out_mapped

            def fold(i: int, array: Any) -> Any:
                if i in tables:
                    return array
                if not mapped[i]:
                    array = jnp.broadcast_to(array, (size, *array.shape))
                return array.reshape(size * array.shape[1], *array.shape[2:])

            folded = call(*(fold(i, array) for i, array in enumerate(arrays)))
            return jax.tree.map(lambda a: a.reshape(size, a.shape[0] // size if size else 0, *a.shape[1:]), folded), out_mapped

        return call

    def checked(self, arrays: tuple[Any, ...], flags: Optional[list[bool]]) -> tuple[Any, ...]:
        """As arrays of JAX. What the library refuses is refused here already, in its words: it is called with arrays of these
        types and shapes, but without batches, so that nothing is computed."""
        operator = self.operator
        arrays = tuple(map(_as_array, (*operator.arguments, "grad_output"), arrays))
        if not all(isinstance(extent, int) for array in arrays for extent in array.shape):
            return arrays  # an export for any shape
        native = operator.native_forward if flags is None else operator.native_backward
        outputs: list[Any] = [None] * (1 if flags is None else len(flags))
        given = [np.broadcast_to(np.zeros((), array.dtype), array.shape) for array in arrays]
        try:
            if len({array.shape[:1] for i, array in enumerate(given) if i not in operator.table_positions}) > 1:
                raise ValueError("batches differ")
            inputs = [array if i in operator.table_positions else array[:0] for i, array in enumerate(given)]
            if flags is None:
                outputs = [np.empty(operator.output_shape(*inputs), inputs[0].dtype)]
            native(OWN_THREADS, *inputs, *outputs)
        except Exception:
            operator.call(native, given, *[None] * len(outputs))  # raises, with the shapes that were given
            raise
        return arrays


def _as_array(name: str, array: Any) -> Any:
    try:
        if array is None:
            raise TypeError("got None")
        return jnp.asarray(array)
    except Exception as error:
        raise TypeError(f"{name}: expected an array: {error}") from None


OPERATORS = {operator.name: JaxOperator(operator) for operator in _DESCRIPTIONS}
