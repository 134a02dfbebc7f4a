"""The operators in PyTorch: torch.ops.deformkit.*, with autograd, autocast, vmap, torch.compile and torch.export.

deformkit imports this by itself once PyTorch is there.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Callable

import torch
from torch.autograd import forward_ad

from . import _checks, _native
from ._operator import OPERATORS as _DESCRIPTIONS
from ._operator import Operator

_library = torch.library.Library("deformkit", "DEF")
_plain_types = frozenset((torch.Tensor, torch.nn.Parameter))
# PyTorch gives large tensors fresh memory, often for each call: in a Deformable DETR, page faults took a third of the encoder's
# attention.
_LARGE = 4 << 20
_autocast_keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(
    torch._C.DispatchKey.AutocastCUDA
)
_CUDA = 2  # DLPack's number of the device

try:
    from torch._C import _is_tracing, _len_torch_dispatch_stack, _len_torch_function_stack
    from torch._C._functorch import is_legacy_batchedtensor, peek_interpreter_stack
    from torch.autograd import _profiler_enabled

    _can_look = True
except ImportError:  # of another version of PyTorch: its dispatcher then sees every call
    _can_look = False


def _is_transformed() -> bool:
    return _can_look and (peek_interpreter_stack() is not None or forward_ad._current_level >= 0)


def is_eager(tensors: tuple[torch.Tensor, ...]) -> bool:
    """Whether nothing but autograd has a part in this call: no subclass, mode, transform, tracer or profiler. It then reaches the
    kernel without PyTorch's dispatcher, whose way through Python takes longer than a small kernel."""
    if not _can_look:
        return False
    for tensor in tensors:
        if type(tensor) not in _plain_types or tensor.is_neg():
            return False
    kind = tensors[0].device.type
    return kind in ("cpu", "cuda") and not (
        _is_tracing()
        or _len_torch_dispatch_stack()
        or _len_torch_function_stack()
        or _is_transformed()
        or _profiler_enabled()
        or torch.is_autocast_enabled(kind)
    )


def _new(like: torch.Tensor, shape: Any) -> torch.Tensor:
    tensor = like.new_empty(shape)
    if tensor.nbytes >= _LARGE and tensor.is_cpu:
        _native.prefer_huge_pages(tensor.data_ptr(), tensor.nbytes)
    return tensor


def _follow_pytorch(tensor: torch.Tensor) -> None:
    """The calls of this thread on CUDA's tensors go into PyTorch's current stream, and are as deterministic as PyTorch's."""
    if tensor.is_cuda:
        index = tensor.device.index
        _native.set_stream(_CUDA, index, torch.cuda.current_stream(index).cuda_stream)
        must = torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled()
        _native.set_deterministic(must)


def library_path() -> str:
    """libdeformkit_torch.so, for C++ programs that run packages of AOTInductor or TorchScript modules: docs/deploy.md."""
    return str(Path(_native.__file__).absolute().with_name("libdeformkit_torch.so.0"))


def _autograd_function(name: str, **methods: Callable[..., Any]) -> Any:
    return type(name, (torch.autograd.Function,), {key: staticmethod(method) for key, method in methods.items()})


class TorchOperator:
    """An operator's PyTorch side. forward() and backward() take and give what the registered operators do."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        names = [operator.name, f"{operator.name}_backward"]
        arguments = ", ".join(f"Tensor {name}" for name in operator.arguments)
        # wanted: one for each of operator.gradients; the result holds only those.
        schemas = [f"({arguments}) -> Tensor", f"({arguments}, Tensor grad_output, bool[] wanted) -> Tensor[]"]
        for name, schema in zip(names, schemas):
            if not hasattr(torch.ops.deformkit, name):  # libdeformkit_torch.so may have been loaded first
                _library.define(name + schema, tags=[torch.Tag.pt2_compliant_tag])
        self.forward_op, self.backward_op = (getattr(torch.ops.deformkit, name).default for name in names)

        # For every device: the library tells what is wrong with a tensor of one that it does not know.
        _library.impl(names[0], self.run_forward, "CompositeExplicitAutograd")
        _library.impl(names[1], self.run_backward, "CompositeExplicitAutograd")
        for key in ("AutocastCPU", "AutocastCUDA"):
            _library.impl(names[0], self.autocast_forward, key)
        qualified = [f"deformkit::{name}" for name in names]
        torch.library.register_fake(qualified[0], self.fake_forward, lib=_library)
        torch.library.register_fake(qualified[1], self.fake_backward, lib=_library)
        torch.library.register_autograd(qualified[0], self.differentiate, setup_context=self.setup_context, lib=_library)
        torch.library.register_autograd(qualified[1], self.refuse_second_derivative, lib=_library)
        for name, op in zip(qualified, (self.forward_op, self.backward_op)):
            torch.library.register_vmap(name, functools.partial(self.map, op), lib=_library)

        # What autograd runs in eager mode. With setup_context as a method of its own, PyTorch would inspect forward's signature
        # at every call.
        self.eager = _autograd_function(operator.name, forward=self.forward_and_save, backward=self.differentiate)
        # What torch.func and forward-mode differentiation run, which do not take registered operators.
        self.transformed = _autograd_function(
            operator.name,
            forward=lambda *tensors: self.forward_op(*tensors),
            setup_context=self.setup_context,
            backward=self.differentiate,
        )
        self.transformed_backward = _autograd_function(
            names[1],
            forward=lambda *arguments: tuple(self.backward_op(*arguments)),
            setup_context=lambda ctx, inputs, output: None,
            backward=self.refuse_second_derivative,
        )
        self.transformed.generate_vmap_rule = self.transformed_backward.generate_vmap_rule = True

    def forward(self, *tensors: Any) -> torch.Tensor:
        if torch.compiler.is_compiling():
            return self.forward_op(*tensors)
        if not is_eager(tensors):
            tensors = tuple(map(self.as_tensor, self.operator.arguments, tensors))
            return self.transformed.apply(*tensors) if _is_transformed() else self.forward_op(*tensors)
        if torch.is_grad_enabled():
            for i in self.operator.gradient_positions:
                if tensors[i].requires_grad:
                    return self.eager.apply(*tensors)
        return self.run_forward(*tensors)

    def backward(self, *arguments: Any) -> list[torch.Tensor]:
        return self.backward_op(*arguments)

    @staticmethod
    def as_tensor(name: str, array: Any) -> torch.Tensor:
        if isinstance(array, torch.Tensor) or hasattr(type(array), "__torch_function__"):  # such as torch.fx's proxies
            return array
        if array is None:
            raise ValueError(f"{name}: expected a tensor, got None")
        try:
            return torch.as_tensor(array)
        except Exception as error:
            raise TypeError(f"{name}: expected a tensor, got {type(array).__name__}: {error}") from None

    def run_forward(self, *tensors: torch.Tensor) -> Any:
        operator = self.operator
        try:
            output: Any = _new(tensors[0], operator.output_shape(*tensors))
        except (AttributeError, IndexError, RuntimeError):
            output = None  # the library finds what is wrong
        try:
            _follow_pytorch(tensors[0])
            operator.native_forward(torch.get_num_threads(), *tensors, output)
        except Exception as error:
            raise operator.explained(error) from None
        return output

    def run_backward(self, *arguments: Any) -> list[torch.Tensor]:
        *tensors, grad_output, wanted = arguments
        gradients = [
            _new(tensors[i], tensors[i].shape) if flag else None for i, flag in zip(self.operator.gradient_positions, wanted)
        ]
        try:
            _follow_pytorch(grad_output)
            self.operator.native_backward(torch.get_num_threads(), *tensors, grad_output, *gradients)
        except Exception as error:
            raise self.operator.explained(error) from None
        return [gradient for gradient in gradients if gradient is not None]

    def fake_forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        _checks.check_inputs(self.operator, tensors)
        return tensors[0].new_empty(self.operator.output_shape(*tensors))

    def fake_backward(self, *arguments: Any) -> list[torch.Tensor]:
        *tensors, grad_output, wanted = arguments
        _checks.check_inputs(self.operator, tuple(tensors))
        _checks.check_grad_output(self.operator, tuple(tensors), grad_output)
        return [tensors[i].new_empty(tensors[i].shape) for i, flag in zip(self.operator.gradient_positions, wanted) if flag]

    def forward_and_save(self, ctx: Any, *tensors: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*tensors)
        return self.run_forward(*tensors)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        ctx.save_for_backward(*inputs)

    def differentiate(self, ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        positions = self.operator.gradient_positions
        wanted = [ctx.needs_input_grad[i] for i in positions]
        tensors = ctx.saved_tensors
        # With gradients on, someone wants to differentiate the result: only a registered operator can refuse that.
        direct = not (torch.is_grad_enabled() or torch.compiler.is_compiling()) and is_eager((*tensors, grad_output))
        if direct:
            backward: Any = self.run_backward
        else:
            backward = self.transformed_backward.apply if _is_transformed() else self.backward_op
        if _can_look and is_legacy_batchedtensor(grad_output):
            found = iter(self.batched_backward(tensors, grad_output, wanted))
        else:
            found = iter(backward(*tensors, grad_output, wanted))
        gradients: list[Any] = [None] * len(tensors)
        for i, flag in zip(positions, wanted):
            if flag:
                gradients[i] = next(found)
        return tuple(gradients)

    def batched_backward(self, tensors: tuple[torch.Tensor, ...], grad_output: torch.Tensor, wanted: list[bool]) -> list[Any]:
        """Of torch.autograd.grad(is_grads_batched=True), whose own vmap knows no operator that returns a list: one gradient of
        the output after the other, as a copy of all inputs for each would take more."""
        level = torch._C._vmapmode_increment_nesting() - 1
        torch._C._vmapmode_decrement_nesting()
        single = torch._remove_batch_dim(grad_output, level, 1, 0).unbind()
        if torch.is_grad_enabled():
            return self.refuse_second_derivative(None)
        results = [self.backward_op(*tensors, gradient, wanted) for gradient in single]
        return [torch._add_batch_dim(torch.stack(parts), 0, level) for parts in zip(*results)]

    def refuse_second_derivative(self, ctx: Any, *gradients: Any) -> Any:
        raise RuntimeError(f"deformkit.{self.operator.name}: second derivatives are not implemented")

    def autocast_forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        """What has the result's type is promoted to the widest among it, as autocast does for grid_sample."""
        positions = self.operator.gradient_positions
        widest = functools.reduce(torch.promote_types, [tensors[i].dtype for i in positions])
        cast = [tensor.to(widest) if i in positions else tensor for i, tensor in enumerate(tensors)]
        with torch._C._ExcludeDispatchKeyGuard(_autocast_keys):
            return self.forward_op(*cast)

    def map(self, op: Any, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
        """vmap: the mapped axis is folded into the batch; where the tables are mapped as well, one call after the other."""
        size = info.batch_size
        tables = self.operator.table_positions
        if any(in_dims[i] is not None for i in tables):
            results = [
                op(*(a if dim is None or isinstance(a, list) else a.select(dim, k) for a, dim in zip(arguments, in_dims)))
                for k in range(size)
            ]
            if isinstance(results[0], list):
                return [torch.stack(parts) for parts in zip(*results)], [0] * len(results[0])
            return torch.stack(results), 0

        def fold(i: int, argument: Any, dim: Any) -> Any:
            if i in tables or not isinstance(argument, torch.Tensor):
                return argument
            mapped = argument.expand(size, *argument.shape) if dim is None else argument.movedim(dim, 0)
            return mapped.flatten(0, 1)

        def unfold(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.unflatten(0, (size, -1 if tensor.shape[0] else 0))

        result = op(*(fold(i, a, dim) for i, (a, dim) in enumerate(zip(arguments, in_dims))))
        if isinstance(result, list):
            return [unfold(part) for part in result], [0] * len(result)
        return unfold(result), 0


OPERATORS = {operator.name: TorchOperator(operator) for operator in _DESCRIPTIONS}
for _description in _DESCRIPTIONS:  # from the first call on, so that torch.compile does not meet a table that grows
    _description.sides.update({kind: OPERATORS[_description.name] for kind in _plain_types})
