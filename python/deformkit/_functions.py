"""The operators as torch.autograd.Functions under other libraries' names: what those of mx_driving and of the adapters share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

import torch

from ._operator import Operator, renamed


class Signature:
    """An operator under the names that another library gave its arguments, and what a Function does with it.

    Like the originals, Functions take floating-point tensors of different types, and compute in the first one's.

    names: of the operator's arguments
    options: arguments behind those, which may be left out and have no effect here
    """

    def __init__(self, operator: Operator, names: Sequence[str], options: tuple[str, ...] = ()) -> None:
        self.operator = operator
        self.names = dict(zip(operator.arguments, names))
        self.options = options

    def in_order(self, function: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """A call's arguments, which PyTorch takes by position only. TypeError if one is missing or unknown."""
        names = (*self.names.values(), *self.options)
        least, late = len(self.names), list(names[len(arguments) :])
        while late and late[-1] in self.options and late[-1] not in named:
            late.pop()
        count = len(arguments) + len(named)
        if len(arguments) + len(late) != count or not least <= count <= len(names) or not named.keys() <= set(late):
            expected = ", ".join((*names[:least], *(f"{name}=None" for name in names[least:])))
            number = str(least) if least == len(names) else f"{least} to {len(names)}"
            by_name = f" ({', '.join(named)} by name)" if named else ""
            raise TypeError(f"{function}: expected {number} arguments ({expected}), got {count}{by_name}")
        return (*arguments, *(named[name] for name in late))

    def forward(self, ctx: Any, *tensors: torch.Tensor, dtype: Optional[torch.dtype] = None) -> torch.Tensor:
        """Tables as integers, and what has gradients in the first tensor's type, or in `dtype`."""
        ready = list(tensors)
        for i, (name, tensor) in enumerate(zip(self.names.values(), tensors)):
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{name}: expected a tensor, got {type(tensor).__name__}")
            if i in self.operator.table_positions and tensor.is_floating_point():
                ready[i] = tensor.int()
            elif i in self.operator.gradient_positions:
                ready[i] = tensor.to(dtype or tensors[0].dtype)
        try:
            with torch.no_grad():  # for those who call a Function's forward() themselves
                output = self.operator.forward(*ready)
        except Exception as error:
            raise renamed(error, self.names) from None
        ctx.save_for_backward(*ready)
        return output

    def backward(self, ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        """A ctx of the caller's own that does not say which gradients it needs gets all."""
        operator, tensors = self.operator, ctx.saved_tensors
        needed = ctx.needs_input_grad if isinstance(ctx.needs_input_grad, tuple) else (True,) * len(tensors)
        wanted = [operator.arguments[i] for i in operator.gradient_positions if needed[i]]
        found = operator.backward(*tensors, grad_output=grad_output.to(tensors[0].dtype), wanted=wanted)
        gradients: list[Any] = [None] * len(needed)
        for i, gradient in zip(operator.gradient_positions, found):
            gradients[i] = gradient
        return tuple(gradients)


class OperatorFunction(torch.autograd.Function):
    """Looks at its arguments before PyTorch does, which would not say their names."""

    signature: Signature

    @classmethod
    def apply(cls, *arguments: Any, **named: Any) -> Any:
        return super().apply(*cls.signature.in_order(cls.__name__, arguments, named))
