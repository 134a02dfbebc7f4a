"""JAX's arrays."""

from __future__ import annotations

import numpy as np
import pytest
from problems import Problem

jax = pytest.importorskip("jax")


def test_jax(problem: Problem) -> None:
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


def test_jax_bfloat16(problem: Problem) -> None:
    inputs = problem.inputs("bfloat16")
    result = problem.forward(*map(jax.numpy.asarray, inputs))
    assert isinstance(result, jax.Array) and result.dtype == jax.numpy.bfloat16
    np.testing.assert_array_equal(np.asarray(result), problem.forward(*inputs))


def test_jax_tracers_are_refused(problem: Problem) -> None:
    with pytest.raises(TypeError):
        jax.jit(problem.forward)(*problem.inputs())
