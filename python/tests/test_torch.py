"""PyTorch in eager mode: autograd, autocast, transforms, threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import numpy as np
import pytest
from problems import Problem

torch = pytest.importorskip("torch")

import deformkit  # noqa: E402
import deformkit.mx_driving  # noqa: E402
import deformkit.torch  # noqa: E402, F401


def tensors_of(problem: Problem, dtype: str = "float32", requires_grad: bool = True, **sizes: Any) -> list[Any]:
    tensors = []
    for i, array in enumerate(problem.inputs("float64", **sizes)):
        tensor = torch.from_numpy(array)
        if tensor.is_floating_point():
            tensor = tensor.to(getattr(torch, dtype))
        tensors.append(tensor.requires_grad_(requires_grad and i in problem.operator.gradient_positions))
    return tensors


def op_of(problem: Problem) -> Any:
    return getattr(torch.ops.deformkit, problem.name).default


def differentiable(problem: Problem, tensors: Any) -> list[Any]:
    return [tensors[i] for i in problem.operator.gradient_positions]


def test_same_as_numpy(problem: Problem, dtype: str) -> None:
    inputs = problem.inputs(dtype)
    tensors = [torch.tensor(a.astype("float64" if a.dtype.kind != "i" else a.dtype)) for a in inputs]
    tensors = [t.to(getattr(torch, dtype)) if t.is_floating_point() else t for t in tensors]
    result = problem.forward(*tensors)
    assert isinstance(result, torch.Tensor) and result.dtype == tensors[0].dtype
    np.testing.assert_array_equal(result.double().numpy(), problem.forward(*inputs).astype(np.float64))


def test_mixed(problem: Problem) -> None:
    """The first argument decides; the others come from anywhere."""
    inputs = problem.inputs()
    expected = problem.forward(*inputs)
    result = problem.forward(inputs[0], *map(torch.from_numpy, inputs[1:]))
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, expected)
    result = problem.forward(torch.from_numpy(inputs[0]), *inputs[1:])
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), expected)


def test_gradients(problem: Problem, dtype: str) -> None:
    tensors = tensors_of(problem, dtype)
    result = problem.forward(*tensors)
    assert result.requires_grad
    grad_output = torch.randn_like(result)
    result.backward(grad_output)
    gradients = [tensor.grad for tensor in differentiable(problem, tensors)]
    assert all(gradient.dtype == tensors[0].dtype for gradient in gradients)
    # As NumPy's, bit by bit.
    arrays = [t.detach().numpy() if dtype != "bfloat16" or not t.is_floating_point() else None for t in tensors]
    if dtype != "bfloat16":
        expected = problem.backward(*arrays, grad_output.numpy())
        for gradient, other in zip(gradients, expected):
            np.testing.assert_array_equal(gradient.numpy(), other)


def test_every_way_gives_the_same(problem: Problem) -> None:
    """Straight to the kernel, through the dispatcher, and the function that PyTorch does not differentiate."""
    tensors = tensors_of(problem)
    grad_output = torch.randn_like(problem.forward(*tensors))
    found = []
    for call in (problem.forward, op_of(problem)):
        result = call(*tensors)
        found.append([result.detach(), *torch.autograd.grad(result, differentiable(problem, tensors), grad_output)])
    with torch.no_grad():
        found.append([problem.forward(*tensors), *problem.backward(*tensors, grad_output)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            assert torch.equal(a, b)


def test_only_needed_gradients_are_computed(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    native = problem.operator.native_backward

    def spy(*arguments: Any) -> Any:
        count = len(problem.operator.gradients)
        asked.append([a is not None for a in arguments[-count:]])
        return native(*arguments)

    monkeypatch.setattr(problem.operator, "native_backward", spy)
    for call in (problem.forward, op_of(problem)):
        for wanted in range(len(problem.operator.gradients)):
            tensors = tensors_of(problem, requires_grad=False)
            tensor = differentiable(problem, tensors)[wanted].requires_grad_()
            call(*tensors).sum().backward()
            assert tensor.grad is not None
            assert asked.pop() == [i == wanted for i in range(len(problem.operator.gradients))]
    assert not asked


def test_gradcheck(problem: Problem) -> None:
    for call in (problem.forward, op_of(problem)):
        tensors = tensors_of(problem, "float64", batch=1, queries=2, channels=3)
        assert torch.autograd.gradcheck(call, tensors, eps=1e-6, atol=1e-6, nondet_tol=0.0)


def second_derivatives(call: Callable[..., Any], tensors: Any) -> tuple[Callable[[], None], ...]:
    """Ways to ask for them. The first two have an output's gradient that nothing depends on, so that the result would be zero."""

    def constant_gradient() -> None:
        result = call(*tensors)
        (gradient,) = torch.autograd.grad(result.sum(), tensors[0], create_graph=True)
        (gradient.square().sum() + 0 * result.sum()).backward()

    def every_gradient() -> None:
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        gradients = torch.autograd.grad(call(*tensors).sum(), wanted, create_graph=True)
        torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), wanted, allow_unused=True)

    def varying_gradient() -> None:
        (gradient,) = torch.autograd.grad(call(*tensors).square().sum(), tensors[0], create_graph=True)
        gradient.sum().backward()

    return constant_gradient, every_gradient, varying_gradient


REFUSED_TWICE = "second derivatives are not implemented"


def test_second_derivatives_are_refused(problem: Problem) -> None:
    def compiled(*tensors: Any) -> Any:
        torch._dynamo.reset()
        return torch.compile(problem.forward, fullgraph=True, backend="eager")(*tensors)

    for call in (problem.forward, op_of(problem), compiled, getattr(deformkit.mx_driving, problem.name)):
        for derive in second_derivatives(call, tensors_of(problem)):
            with pytest.raises(RuntimeError, match=f"{problem.name}: {REFUSED_TWICE}"):
                derive()


def test_second_derivatives_of_transforms_are_refused(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)

    def loss(value: Any) -> Any:
        return problem.forward(value, *tensors[1:]).sum()

    with pytest.raises(RuntimeError, match=REFUSED_TWICE):
        torch.func.grad(lambda value: torch.func.grad(loss)(value).square().sum())(tensors[0])
    with pytest.raises(RuntimeError, match=REFUSED_TWICE):
        torch.autograd.functional.hessian(loss, tensors[0])


def test_second_derivatives_of_the_backward_are_refused(problem: Problem) -> None:
    tensors = tensors_of(problem)
    gradient = problem.backward(*tensors, torch.ones_like(problem.forward(*tensors)))[0]
    with pytest.raises(RuntimeError, match=REFUSED_TWICE):
        gradient.sum().backward()


def test_opcheck(problem: Problem) -> None:
    tensors = tensors_of(problem)
    torch.library.opcheck(op_of(problem), tensors)
    grad_output = torch.randn_like(problem.forward(*tensors))
    backward = getattr(torch.ops.deformkit, f"{problem.name}_backward").default
    flags = [i % 2 == 0 for i in range(len(problem.operator.gradients))]
    torch.library.opcheck(backward, [*(t.detach() for t in tensors), grad_output.detach(), flags])


def test_strides(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    expected = problem.forward(*tensors)
    views = [t.flip(-1).flip(-1) if i % 2 else t.transpose(0, -1).contiguous().transpose(0, -1) for i, t in enumerate(tensors)]
    assert torch.equal(problem.forward(*views), expected)
    output_gradient = torch.ones(()).expand(expected.shape)  # what sum() hands back
    tensors = tensors_of(problem)
    problem.forward(*tensors).sum().backward()
    for gradient, other in zip(differentiable(problem, tensors), problem.backward(*tensors, output_gradient)):
        assert torch.equal(gradient.grad, other)


def test_tensors_that_are_views_of_something_else(problem: Problem) -> None:
    """A negative view, a subclass and a parameter."""
    tensors = tensors_of(problem, requires_grad=False)
    expected = problem.forward(*tensors)
    assert torch.equal(problem.forward(torch._neg_view(-tensors[0]), *tensors[1:]), expected)
    assert torch.equal(problem.forward(torch.nn.Parameter(tensors[0]), *tensors[1:]).detach(), expected)

    class Subclass(torch.Tensor):
        pass

    result = problem.forward(tensors[0].as_subclass(Subclass), *tensors[1:])
    assert type(result) is Subclass and torch.equal(result.as_subclass(torch.Tensor), expected)


def test_meta_and_fake(problem: Problem, dtype: str) -> None:
    tensors = tensors_of(problem, dtype)
    result = problem.forward(*(t.to("meta") for t in tensors))
    assert result.device.type == "meta" and result.dtype == tensors[0].dtype
    assert result.shape == problem.forward(*tensors).shape
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = problem.forward(*(mode.from_tensor(t) for t in tensors))
    assert fake.shape == result.shape


def test_wrong_arguments(problem: Problem) -> None:
    tensors = tensors_of(problem)
    for call in (problem.forward, op_of(problem)):
        with pytest.raises(ValueError, match="expected"):
            call(tensors[0][0], *tensors[1:])
        with pytest.raises(TypeError, match="expected"):
            call(tensors[0].to(torch.complex64), *tensors[1:])
        for wrong, error in ((None, (ValueError, RuntimeError)), (object(), (TypeError, RuntimeError))):
            for i, name in enumerate(problem.operator.arguments[1:], 1):
                with pytest.raises(error, match=rf"\b{name}\b"):
                    call(*tensors[:i], wrong, *tensors[i + 1 :])
        mixed = list(tensors)
        mixed[problem.operator.gradient_positions[-1]] = tensors[problem.operator.gradient_positions[-1]].double()
        with pytest.raises(TypeError, match="expected"):
            call(*mixed)


def mistakes(problem: Problem) -> Iterator[list[Any]]:
    """Arguments of the backward operator, each list with one mistake: an axis too many or too few, an extent, a type."""
    tensors = tensors_of(problem, requires_grad=False)
    tensors.append(torch.zeros(problem.forward(*tensors).shape))
    dtypes = (torch.float64, torch.int8, torch.uint8, torch.int32, torch.complex64, torch.bool, torch.float32)
    for i, tensor in enumerate(tensors):
        changed = [tensor[0], tensor[None], *(tensor.to(dtype) for dtype in dtypes if dtype != tensor.dtype)]
        for axis in range(tensor.ndim):
            changed += [torch.cat([tensor, tensor.narrow(axis, 0, 1)], axis), tensor.narrow(axis, 0, 0)]
        for wrong in changed:
            yield [*tensors[:i], wrong, *tensors[i + 1 :]]


def test_tensors_without_data_are_refused_alike(problem: Problem) -> None:
    """In the same words; and nothing more is refused than the library refuses."""

    def outcome(call: Callable[..., Any], tensors: Any) -> Any:
        try:
            result = call(*tensors)
        except Exception as error:
            return type(error), str(error)
        return [part.shape for part in (result if isinstance(result, list) else [result])]

    backward = getattr(torch.ops.deformkit, f"{problem.name}_backward").default
    wanted = [True] * len(problem.operator.gradients)
    refused = 0
    for tensors in mistakes(problem):
        meta = [tensor.to("meta") for tensor in tensors]
        for call, count in (op_of(problem), -1), (lambda *arguments: backward(*arguments, wanted), None):
            expected = outcome(call, tensors[:count])
            assert outcome(call, meta[:count]) == expected
            refused += isinstance(expected, tuple)
    assert refused > 50


def test_autocast(problem: Problem) -> None:
    """Promoted to the widest type among the arguments, as grid_sample is."""
    tensors = tensors_of(problem)
    expected = problem.forward(tensors[0].bfloat16().float(), *tensors[1:])
    with torch.autocast("cpu", torch.bfloat16):
        result = problem.forward(tensors[0].bfloat16(), *tensors[1:])
        assert result.dtype == torch.float32 and torch.equal(result, expected)
        result.sum().backward()
    assert tensors[0].grad is not None and tensors[0].grad.dtype == torch.float32
    half = [t.detach().bfloat16() if t.is_floating_point() else t for t in tensors]
    with torch.autocast("cpu", torch.bfloat16):
        assert problem.forward(*half).dtype == torch.bfloat16


def test_vmap(problem: Problem) -> None:
    runs = [tensors_of(problem, requires_grad=False, seed=seed) for seed in range(3)]
    stacked = [torch.stack(parts) for parts in zip(*runs)]
    expected = torch.stack([problem.forward(*run) for run in runs])
    tables = problem.operator.table_positions
    # Tables mapped too: they are equal here, but vmap does not know.
    assert torch.equal(torch.func.vmap(problem.forward)(*stacked), expected)
    # Tables shared.
    arguments = [runs[0][i] if i in tables else t for i, t in enumerate(stacked)]
    dims = tuple(None if i in tables else 0 for i in range(len(stacked)))
    assert torch.equal(torch.func.vmap(problem.forward, dims)(*arguments), expected)
    # The first argument shared, the last mapped along another axis.
    expected = torch.stack([problem.forward(runs[0][0], *run[1:]) for run in runs])
    arguments[0] = runs[0][0]
    arguments[-1] = arguments[-1].movedim(0, 2)
    dims = (None, *dims[1:-1], 2)
    assert torch.equal(torch.func.vmap(problem.forward, dims)(*arguments), expected)


def test_function_transforms(problem: Problem) -> None:
    """torch.func.grad, alone and per example under vmap."""
    runs = [tensors_of(problem, seed=seed) for seed in range(3)]
    expected = []
    for run in runs:
        problem.forward(*run).square().sum().backward()
        expected.append(run[0].grad)

    def loss(value: Any, *others: Any) -> Any:
        return problem.forward(value, *others).square().sum()

    detached = [[t.detach() for t in run] for run in runs]
    torch.testing.assert_close(torch.func.grad(loss)(*detached[0]), expected[0], rtol=1e-5, atol=1e-5)
    stacked = [torch.stack(parts) for parts in zip(*detached)]
    found = torch.func.vmap(torch.func.grad(loss))(*stacked)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", [1, 4])
def test_batched_gradients(problem: Problem, count: int) -> None:
    """Several gradients of the output at once."""
    tensors = tensors_of(problem)
    wanted = differentiable(problem, tensors)
    for call in (problem.forward, op_of(problem)):
        result = call(*tensors)
        grad_outputs = torch.randn(count, *result.shape)
        found = torch.autograd.grad(result, wanted, grad_outputs, is_grads_batched=True, retain_graph=True)
        single = [torch.autograd.grad(result, wanted, grad_output, retain_graph=True) for grad_output in grad_outputs]
        for several, one in zip(found, zip(*single)):
            assert torch.equal(several, torch.stack(one))


def test_jacobians(problem: Problem) -> None:
    tensors = tensors_of(problem, "float64", requires_grad=False, batch=1, queries=2, channels=3)
    positions = problem.operator.gradient_positions

    def call(*inputs: Any) -> Any:
        arguments = list(tensors)
        for position, tensor in zip(positions, inputs):
            arguments[position] = tensor
        return problem.forward(*arguments)

    inputs = tuple(tensors[i] for i in positions)
    expected = torch.autograd.functional.jacobian(call, inputs)
    assert expected[0].abs().max() > 0
    torch.testing.assert_close(torch.autograd.functional.jacobian(call, inputs, vectorize=True), expected)
    torch.testing.assert_close(torch.func.jacrev(call, argnums=tuple(range(len(inputs))))(*inputs), expected)


def test_symbolic_trace(problem: Problem) -> None:
    """torch.fx: as one call."""
    tensors = tensors_of(problem, requires_grad=False)
    traced = torch.fx.symbolic_trace(lambda a, b, c, d, e: problem.forward(a, b, c, d, e) + 1)
    targets = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert targets[0] is op_of(problem) and len(targets) == 2
    assert torch.equal(traced(*tensors), problem.forward(*tensors) + 1)


def test_forward_mode_is_refused(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    with pytest.raises((RuntimeError, NotImplementedError)):
        torch.func.jvp(lambda value: problem.forward(value, *tensors[1:]), (tensors[0],), (tensors[0],))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(tensors[0], tensors[0])
        with pytest.raises((RuntimeError, NotImplementedError)):
            problem.forward(dual, *tensors[1:])


def test_inference_mode(problem: Problem) -> None:
    tensors = tensors_of(problem)
    expected = problem.forward(*tensors).detach()
    with torch.inference_mode():
        result = problem.forward(*tensors)
        assert result.is_inference() and torch.equal(result, expected)


def test_profiler_sees_calls(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        problem.forward(*tensors)
    assert any(event.key == f"deformkit::{problem.name}" for event in profile.key_averages())


def test_jit_trace(problem: Problem) -> None:
    tensors = tensors_of(problem, requires_grad=False)
    traced = torch.jit.trace(lambda *t: problem.forward(*t), tensors)
    others = tensors_of(problem, requires_grad=False, seed=1)
    assert torch.equal(traced(*others), problem.forward(*others))
    assert not torch.equal(traced(*others), problem.forward(*tensors))


def test_threads_are_torchs(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    native = problem.operator.native_forward

    def spy(threads: int, *arguments: Any) -> Any:
        seen.append(threads)
        return native(threads, *arguments)

    monkeypatch.setattr(problem.operator, "native_forward", spy)
    tensors = tensors_of(problem, requires_grad=False)
    before = torch.get_num_threads()
    deformkit.set_num_threads(3)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            problem.forward(*tensors)
            op_of(problem)(*tensors)
            assert seen == [count, count]
            seen.clear()
            assert deformkit.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    problem.forward(*problem.inputs())
    assert seen == [-1]


def test_threads_that_run_are_torchs() -> None:
    """Counted from outside: with one thread of torch's, the process has no more threads after a call than before."""
    import subprocess
    import sys

    code = """
import os, torch, deformkit
torch.set_num_threads({count})
value = torch.randn(1, 100 * 100, 8, 32)
locations, weights = torch.rand(1, 20000, 8, 1, 4, 2), torch.rand(1, 20000, 8, 1, 4)
arguments = [value, torch.tensor([[100, 100]]), torch.tensor([0]), locations, weights]
before = len(os.listdir("/proc/self/task"))
deformkit.multi_scale_deformable_attn(*arguments)
print(len(os.listdir("/proc/self/task")) - before)
"""
    found = [
        int(subprocess.run([sys.executable, "-c", code.format(count=n)], capture_output=True, text=True, check=True).stdout)
        for n in (1, 3)
    ]
    assert found == [0, 2]


def test_fork(problem: Problem) -> None:
    """A DataLoader's workers are children that may call as well."""

    class Samples(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            return problem.forward(*tensors_of(problem, requires_grad=False, seed=i))

    expected = [Samples()[i] for i in range(4)]
    for batch, other in zip(torch.utils.data.DataLoader(Samples(), batch_size=None, num_workers=2), expected, strict=True):
        assert torch.equal(batch, other)
