"""JAX, PyTorch and NumPy side by side: each gets back what it gave."""

import numpy as np
import pytest


def test_jax(problem):
    jax = pytest.importorskip("jax")
    inputs = problem.inputs()
    arrays = [jax.numpy.asarray(a) for a in inputs]
    result = problem.forward(*arrays)
    assert isinstance(result, jax.Array) and result.dtype == arrays[0].dtype
    np.testing.assert_array_equal(np.asarray(result), problem.forward(*inputs))
    grad_output = problem.grad_output(inputs)
    gradients = problem.backward(*arrays, jax.numpy.asarray(grad_output))
    for gradient, expected in zip(gradients, problem.backward(*inputs, grad_output)):
        assert isinstance(gradient, jax.Array)
        np.testing.assert_array_equal(np.asarray(gradient), expected)


def test_jax_bfloat16(problem):
    jax = pytest.importorskip("jax")
    inputs = problem.inputs("bfloat16")
    result = problem.forward(*map(jax.numpy.asarray, inputs))
    assert isinstance(result, jax.Array) and result.dtype == jax.numpy.bfloat16
    np.testing.assert_array_equal(np.asarray(result), problem.forward(*inputs))


def test_jax_tracers_are_refused(problem):
    jax = pytest.importorskip("jax")
    with pytest.raises(TypeError):
        jax.jit(problem.forward)(*problem.inputs())


def test_torch(problem, dtype):
    torch = pytest.importorskip("torch")
    inputs = problem.inputs(dtype)
    tensors = [torch.tensor(a.astype("float64" if a.dtype.kind != "i" else a.dtype)) for a in inputs]
    tensors = [t.to(getattr(torch, dtype)) if t.is_floating_point() else t for t in tensors]
    result = problem.forward(*tensors)
    assert isinstance(result, torch.Tensor) and result.dtype == tensors[0].dtype
    np.testing.assert_array_equal(result.double().numpy(), problem.forward(*inputs).astype(np.float64))


def test_mixed(problem):
    """The first argument decides; the others come from anywhere."""
    torch = pytest.importorskip("torch")
    inputs = problem.inputs()
    expected = problem.forward(*inputs)
    result = problem.forward(inputs[0], *map(torch.from_numpy, inputs[1:]))
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, expected)
    result = problem.forward(torch.from_numpy(inputs[0]), *inputs[1:])
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), expected)


def test_old_protocol(problem):
    """Libraries whose __dlpack__ takes no arguments yet."""

    class Old:
        def __init__(self, array):
            self.array = array
            self.shape, self.dtype = array.shape, array.dtype

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        def __dlpack__(self, stream=None):
            return self.array.__dlpack__()

    inputs = problem.inputs()
    result = problem.forward(*map(Old, inputs))
    np.testing.assert_array_equal(result, problem.forward(*inputs))
