"""What an operator is, said once: its arguments, its gradients, the shape of its result. What differs between NumPy, PyTorch and
others follows from that."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

from . import _arrays, _native

OWN_THREADS = -1  # the number that deformkit.set_num_threads or the environment set

OPERATORS: list["Operator"] = []


class Operator:
    """
    name: of the public function and of the PyTorch operator
    native: <native>_forward and <native>_backward are the C functions
    arguments: in the order of the C function
    tables: those of them that hold integers and have no batch axis; all others begin with one
    gradients: those that have one, in the order of the C function; all of these have the type of the result
    output_shape: from the arguments; may raise anything where the arguments are wrong, which the library then explains
    """

    def __init__(
        self,
        name: str,
        *,
        native: str,
        arguments: tuple[str, ...],
        tables: tuple[str, ...],
        gradients: tuple[str, ...],
        output_shape: Callable[..., tuple[Any, ...]],
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.gradients = gradients
        self.output_shape = output_shape
        self.native_forward = getattr(_native, f"{native}_forward")
        self.native_backward = getattr(_native, f"{native}_backward")
        self.table_positions = tuple(map(arguments.index, tables))
        self.gradient_positions = tuple(map(arguments.index, gradients))
        self.with_torch: dict[type, Any] = {}  # types of tensors, once deformkit.torch has met them
        OPERATORS.append(self)

    def forward(self, *arrays: Any) -> Any:
        torch_operator = self._torch_operator(arrays[0])
        if torch_operator is not None:
            return torch_operator.forward(*arrays)
        like = arrays[0]
        try:
            output = _arrays.empty(self.output_shape(*arrays), like)
        except Exception:
            self._call(self.native_forward, arrays, None)  # raises: the library finds what is wrong
            raise
        self._call(self.native_forward, arrays, output)
        return _arrays.finish(output, like)

    def backward(self, *arrays: Any, grad_output: Any, wanted: Optional[Iterable[str]]) -> tuple[Any, ...]:
        """A gradient for each of self.gradients: None where it is not wanted."""
        flags = self._flags(wanted)
        torch_operator = self._torch_operator(arrays[0])
        if torch_operator is not None:
            gradients = iter(torch_operator.backward(*arrays, grad_output, flags))
            return tuple(next(gradients) if flag else None for flag in flags)
        like = [arrays[i] for i in self.gradient_positions]
        try:
            results = [_arrays.empty(array.shape, array) if flag else None for array, flag in zip(like, flags)]
        except Exception:
            self._call(self.native_backward, arrays, grad_output, *(None for _ in flags))
            raise
        self._call(self.native_backward, arrays, grad_output, *results)
        return tuple(None if result is None else _arrays.finish(result, array) for result, array in zip(results, like))

    def _call(self, native: Any, arrays: tuple[Any, ...], *others: Any) -> None:
        try:
            native(OWN_THREADS, *arrays, *others)
        except TypeError as error:
            for name, array in zip((*self.arguments, "grad_output"), (*arrays, *others)):
                if array is not None and not hasattr(array, "__dlpack__"):
                    raise TypeError(f"{name}: {error}") from None
            raise

    def _flags(self, wanted: Optional[Iterable[str]]) -> list[bool]:
        if wanted is None:
            return [True] * len(self.gradients)
        names = [wanted] if isinstance(wanted, str) else list(wanted)
        for name in names:
            if name not in self.gradients:
                raise ValueError(f"wanted: expected names out of {', '.join(self.gradients)}, got {name!r}")
        return [name in names for name in self.gradients]

    def _torch_operator(self, value: Any) -> Any:
        """deformkit.torch's side of this operator if `value` is a tensor, else None."""
        kind = type(value)
        if kind not in self.with_torch:
            is_tensor = any(base.__module__ == "torch" and base.__name__ == "Tensor" for base in kind.__mro__)
            if is_tensor:
                from . import torch as side  # PyTorch is there, so this does not import it

                self.with_torch[kind] = side.OPERATORS[self.name]
            else:
                self.with_torch[kind] = None
        return self.with_torch[kind]
