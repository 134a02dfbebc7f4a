"""NumPy without PyTorch: results, gradients, what is refused and how."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import threading
import time
import typing
from typing import Any

import numpy as np
import pytest
from problems import Problem

import deformkit


def test_forward(problem: Problem, dtype: str) -> None:
    inputs = problem.inputs(dtype)
    result = problem.forward(*inputs)
    assert type(result) is np.ndarray and result.dtype == inputs[0].dtype
    problem.check(result, inputs, dtype)
    assert deformkit.last_variant().startswith(f"{problem.kernels}_forward_")


def test_backward(problem: Problem, dtype: str) -> None:
    inputs = problem.inputs(dtype)
    grad_output = problem.grad_output(inputs)
    gradients = problem.backward(*inputs, grad_output)
    for position, gradient in zip(problem.operator.gradient_positions, gradients):
        assert type(gradient) is np.ndarray and gradient.dtype == inputs[position].dtype
    problem.check_gradients(gradients, inputs, grad_output, dtype)


def test_unwanted_gradients_are_left_out(problem: Problem) -> None:
    inputs = problem.inputs()
    grad_output = problem.grad_output(inputs)
    everything = problem.backward(*inputs, grad_output)
    names = problem.operator.gradients
    for wanted in [[], [names[0]], [names[-1]], list(names[1:]), list(names)]:
        gradients = problem.backward(*inputs, grad_output, wanted=wanted)
        for name, gradient, expected in zip(names, gradients, everything):
            assert (gradient is not None) == (name in wanted)
            if gradient is not None:
                np.testing.assert_array_equal(gradient, expected)
    assert problem.backward(*inputs, grad_output, wanted=names[0])[1] is None
    with pytest.raises(ValueError, match="'nothing'"):
        problem.backward(*inputs, grad_output, wanted=["nothing"])


def test_by_keyword(problem: Problem) -> None:
    inputs = problem.inputs()
    result = problem.forward(**dict(zip(problem.operator.arguments, inputs)))
    np.testing.assert_array_equal(result, problem.forward(*inputs))
    assert tuple(inspect.signature(problem.forward).parameters) == problem.operator.arguments


def test_any_strides(problem: Problem) -> None:
    inputs = problem.inputs()
    expected = problem.forward(*inputs)
    views = {
        "fortran order": [np.asfortranarray(a) for a in inputs],
        "every other": [np.repeat(a, 2, 0)[::2] for a in inputs],
        "backwards": [np.ascontiguousarray(a[..., ::-1])[..., ::-1] for a in inputs],
        "read-only": [np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape) for a in inputs],
        "int32": [a.astype(np.int32) if a.dtype.kind == "i" else a for a in inputs],
    }
    for kind, arrays in views.items():
        np.testing.assert_array_equal(problem.forward(*arrays), expected, kind)


def test_read_where_they_lie(problem: Problem) -> None:
    """Big inputs and a small result: a copy of an input would show."""
    inputs = problem.inputs()
    value = np.broadcast_to(inputs[0][:, :, :1] if inputs[0].ndim == 4 else inputs[0], inputs[0].shape)
    assert problem.forward(value, *inputs[1:]).shape == problem.forward(*inputs).shape


def test_old_protocol(problem: Problem) -> None:
    """Libraries whose __dlpack__ takes no arguments yet."""

    class Old:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.shape, self.dtype = array.shape, array.dtype

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.array.__dlpack__()

    inputs = problem.inputs()
    result = problem.forward(*map(Old, inputs))
    np.testing.assert_array_equal(result, problem.forward(*inputs))


def test_empty(problem: Problem) -> None:
    inputs = problem.inputs()
    arrays = [a if i in problem.operator.table_positions else a[:0] for i, a in enumerate(inputs)]
    assert problem.forward(*arrays).shape == (0, *problem.forward(*inputs).shape[1:])


def other_names(problem: Problem) -> set[str]:
    """What arguments are called elsewhere, but not here."""
    names = {
        "spatial_shapes",
        "level_start_index",
        "weights",
        "weight",
        "value_spatial_shapes",
        "value_level_start_index",
        "NULL",
    }
    return names - set(problem.operator.arguments)


def test_wrong_arguments(problem: Problem) -> None:
    inputs = problem.inputs()
    names = problem.operator.arguments
    for i, array in enumerate(inputs):
        for wrong, error in [
            (array[0], ValueError),
            (array[None], ValueError),
            (array.astype(np.complex64), TypeError),
            ([1, 2, 3], TypeError),
            (None, ValueError),
        ]:
            arrays = list(inputs)
            arrays[i] = wrong
            with pytest.raises(error) as caught:
                problem.forward(*arrays)
            assert names[i] in re.findall(r"\w+", str(caught.value))
            assert not other_names(problem) & set(re.findall(r"\w+", str(caught.value)))
    with pytest.raises(TypeError):
        problem.forward(*inputs[:-1])
    with pytest.raises(TypeError, match=f"{names[0]}: .*byte order"):
        problem.forward(inputs[0].astype(inputs[0].dtype.newbyteorder()), *inputs[1:])
    with pytest.raises(TypeError, match="grad_output"):
        problem.backward(*inputs, [1.0])
    with pytest.raises(ValueError, match="grad_output"):
        problem.backward(*inputs, problem.grad_output(inputs)[:, :-1])


def test_device_arrays_are_refused(problem: Problem) -> None:
    class OnDevice:
        """What a GPU's array looks like before anything is read from it."""

        def __init__(self, array: Any) -> None:
            self.array = array
            self.shape, self.dtype, self.ndim = array.shape, array.dtype, array.ndim

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 0)

        def __dlpack__(self, **kwargs: Any) -> None:
            raise BufferError("not in host memory")

    inputs = problem.inputs()
    with pytest.raises((ValueError, TypeError, BufferError)):
        problem.forward(OnDevice(inputs[0]), *inputs[1:])


def test_threads(problem: Problem) -> None:
    inputs = problem.inputs()
    expected = problem.forward(*inputs)
    for count in (1, 2, 5, 0):
        deformkit.set_num_threads(count)
        assert deformkit.get_num_threads() == count
        np.testing.assert_array_equal(problem.forward(*inputs), expected)
    with pytest.raises(ValueError, match="-1"):
        deformkit.set_num_threads(-1)
    assert deformkit.get_num_threads() == 0


def test_target(problem: Problem) -> None:
    inputs = problem.inputs()
    expected = problem.forward(*inputs)
    deformkit.set_target("sse41")
    result = problem.forward(*inputs)
    assert deformkit.last_variant().endswith("_sse41")
    problem.check(result, inputs)
    deformkit.set_target(None)
    np.testing.assert_array_equal(problem.forward(*inputs), expected)
    with pytest.raises(ValueError, match="z80"):
        deformkit.set_target("z80")


def test_lock_is_released_while_a_kernel_runs(problem: Problem) -> None:
    """Another thread goes on counting while this one is inside a call."""
    deformkit.set_num_threads(1)
    ticks, stop = [], threading.Event()

    def count() -> None:
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    try:
        for batch in (1000, 4000, 16000, 64000):  # until a call takes long enough
            inputs = [
                a if i in problem.operator.table_positions else np.broadcast_to(a[:1], (batch, *a.shape[1:]))
                for i, a in enumerate(problem.inputs())
            ]
            before = time.perf_counter()
            problem.forward(*inputs)
            after = time.perf_counter()
            if sum(before < tick < after for tick in ticks) >= 5:
                return
        pytest.fail("no other thread ran during a call")
    finally:
        stop.set()
        counter.join()


def test_many_callers(problem: Problem) -> None:
    inputs = [problem.inputs(seed=seed) for seed in range(8)]
    expected = [problem.forward(*arrays) for arrays in inputs]
    wrong = []

    def call(i: int) -> None:
        for _ in range(50):
            if not np.array_equal(problem.forward(*inputs[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_forked_children_compute_and_end() -> None:
    """A child has none of its parent's worker threads."""
    code = """
import os, sys
import numpy as np
import deformkit
random = np.random.default_rng(0)
deformkit.set_num_threads({threads})
inputs = [random.random((1, 1000, 8, 32), "f"), np.array([[25, 40]]), np.array([0]),
          random.random((1, 500, 8, 1, 4, 2), "f"), random.random((1, 500, 8, 1, 4), "f")]
expected = deformkit.multi_scale_deformable_attn(*inputs)
for i in range(50):
    child = os.fork()
    if child == 0:
        sys.exit(i % 2 and not np.array_equal(deformkit.multi_scale_deformable_attn(*inputs), expected))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    for threads in (4, 16):
        command = [sys.executable, "-W", "ignore", "-c", code.format(threads=threads)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
        assert done.stdout.split() == ["0"] * 50, done.stderr


def test_import_is_light() -> None:
    code = "import sys, deformkit; print(sorted({'torch', 'numpy', 'jax', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_documented(problem: Problem) -> None:
    for function in (problem.forward, problem.backward):
        hints = typing.get_type_hints(function)
        assert set(hints) == {*inspect.signature(function).parameters, "return"}
        for word in ("Args:", "Returns:", "Raises:", "ValueError"):
            assert word in (function.__doc__ or "")
        for argument in problem.operator.arguments:
            assert argument in (function.__doc__ or "")


def test_version_is_the_packages() -> None:
    assert deformkit.__version__.count(".") == 2
