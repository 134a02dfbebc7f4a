"""JAX: arrays, and what is traced: jax.jit, jax.grad, jax.vmap."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import Problem

import deformkit
from deformkit import _native

jax = pytest.importorskip("jax")
jnp = jax.numpy


def arrays_of(problem: Problem, dtype: str = "float32", **options: Any) -> list[Any]:
    return [jnp.asarray(a) for a in problem.inputs(dtype, **options)]


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


def test_jit(problem: Problem, dtype: str) -> None:
    with jax.enable_x64(dtype == "float64"):
        inputs = problem.inputs(dtype)
        result = jax.jit(problem.forward)(*inputs)
        assert result.dtype == inputs[0].dtype
        np.testing.assert_array_equal(np.asarray(result), problem.forward(*inputs))
        grad_output = problem.grad_output(inputs)
        gradients = jax.jit(problem.backward)(*inputs, grad_output)
        for gradient, expected in zip(gradients, problem.backward(*inputs, grad_output)):
            assert gradient.dtype == expected.dtype
            np.testing.assert_array_equal(np.asarray(gradient), expected)


def test_one_traced_array_is_enough(problem: Problem) -> None:
    inputs = problem.inputs()
    expected = problem.forward(*inputs)
    for constant in (np.asarray, jnp.asarray):
        result = jax.jit(lambda last, constant=constant: problem.forward(*map(constant, inputs[:-1]), last))(inputs[-1])
        np.testing.assert_array_equal(np.asarray(result), expected)


def test_unwanted_gradients_are_left_out(problem: Problem) -> None:
    inputs = problem.inputs()
    grad_output = problem.grad_output(inputs)
    names = problem.operator.gradients
    for wanted in ((), names[:1], names[-1:]):
        gradients = jax.jit(lambda *a, wanted=wanted: problem.backward(*a, wanted=wanted))(*inputs, grad_output)
        for name, gradient, expected in zip(names, gradients, problem.backward(*inputs, grad_output)):
            assert (gradient is not None) == (name in wanted)
            if gradient is not None:
                np.testing.assert_array_equal(np.asarray(gradient), expected)


@pytest.mark.parametrize("compiled", [False, True])
def test_grad(problem: Problem, compiled: bool) -> None:
    arrays = arrays_of(problem)
    grad_output = problem.grad_output(arrays)
    expected = dict(zip(problem.operator.gradient_positions, problem.backward(*map(np.asarray, arrays), grad_output)))

    def loss(*arrays: Any) -> Any:
        return (problem.forward(*arrays) * grad_output).sum()

    for positions in [problem.operator.gradient_positions, problem.operator.gradient_positions[-1:]]:
        grad = jax.grad(loss, positions)
        for i, gradient in zip(positions, (jax.jit(grad) if compiled else grad)(*arrays)):
            np.testing.assert_array_equal(np.asarray(gradient), expected[i])


def test_grad_computes_what_is_asked_for(problem: Problem) -> None:
    """A program that wants one gradient calls for one result."""
    arrays = arrays_of(problem)
    i = problem.operator.gradient_positions[-1]
    program = jax.jit(jax.grad(lambda last: problem.forward(*arrays[:i], last, *arrays[i + 1 :]).sum()))
    text = program.lower(arrays[i]).as_text()
    (call,) = [line for line in text.splitlines() if f"deformkit_{problem.operator.native}_backward" in line]
    assert "wanted" in call and "tuple" not in call.split("->")[1]


def test_vmap(problem: Problem) -> None:
    """Mapped or not, argument by argument, and twice."""
    samples = [problem.inputs(seed=seed) for seed in range(3)]
    tables = problem.operator.table_positions
    stacked = [jnp.asarray(samples[0][i]) if i in tables else jnp.stack(parts) for i, parts in enumerate(zip(*samples))]
    axes = [None if i in tables else 0 for i in range(len(stacked))]
    each = np.stack([problem.forward(*sample) for sample in samples])
    np.testing.assert_array_equal(np.asarray(jax.vmap(problem.forward, axes)(*stacked)), each)
    np.testing.assert_array_equal(np.asarray(jax.jit(jax.vmap(problem.forward, axes))(*stacked)), each)

    last = [None] * (len(stacked) - 1) + [-1]
    moved = [*map(jnp.asarray, samples[0][:-1]), jnp.moveaxis(stacked[-1], 0, -1)]
    expected = np.stack([problem.forward(*samples[0][:-1], sample[-1]) for sample in samples])
    np.testing.assert_array_equal(np.asarray(jax.jit(jax.vmap(problem.forward, last))(*moved)), expected)

    twice = jax.vmap(jax.vmap(problem.forward, axes), [None if axis is None else 1 for axis in axes])
    double = [a if axis is None else jnp.stack([a, a[::-1]], 1) for a, axis in zip(stacked, axes)]
    np.testing.assert_array_equal(np.asarray(jax.jit(twice)(*double)), np.stack([each, each[::-1]]))

    tabled = [jnp.stack([a] * 3) if i in tables else a for i, a in enumerate(stacked)]
    np.testing.assert_array_equal(np.asarray(jax.jit(jax.vmap(problem.forward))(*tabled)), each)


def test_vmap_of_grad(problem: Problem) -> None:
    samples = [problem.inputs(seed=seed) for seed in range(2)]
    tables, positions = problem.operator.table_positions, problem.operator.gradient_positions
    stacked = [jnp.asarray(samples[0][i]) if i in tables else jnp.stack(parts) for i, parts in enumerate(zip(*samples))]
    axes = [None if i in tables else 0 for i in range(len(stacked))]
    grad_output = problem.grad_output(samples[0])

    def loss(*arrays: Any) -> Any:
        return (problem.forward(*arrays) * grad_output).sum()

    expected = [problem.backward(*sample, grad_output) for sample in samples]
    mapped = jax.jit(jax.vmap(jax.grad(loss, positions), axes))(*stacked)
    summed = jax.jit(jax.grad(lambda *arrays: jax.vmap(loss, axes)(*arrays).sum(), positions))(*stacked)
    for of_map, of_sum, parts in zip(mapped, summed, zip(*expected)):
        np.testing.assert_array_equal(np.asarray(of_map), np.stack(parts))
        np.testing.assert_array_equal(np.asarray(of_sum), np.stack(parts))


def test_checkpoint_and_scan(problem: Problem) -> None:
    arrays = arrays_of(problem)
    i = problem.operator.gradient_positions[-1]

    @jax.checkpoint
    def layer(last: Any) -> Any:
        return problem.forward(*arrays[:i], jnp.sin(last), *arrays[i + 1 :]).mean()

    def loss(last: Any) -> Any:
        return jax.lax.scan(lambda sum, _: (sum + layer(last), None), 0.0, None, length=3)[0]

    gradient = jax.jit(jax.grad(loss))(arrays[i])
    np.testing.assert_allclose(np.asarray(gradient), 3 * np.asarray(jax.grad(layer)(arrays[i])), rtol=1e-5, atol=1e-7)


def test_second_derivatives_are_refused(problem: Problem) -> None:
    arrays = arrays_of(problem)
    i = problem.operator.gradient_positions[0]

    def loss(array: Any) -> Any:
        return (problem.forward(*arrays[:i], array, *arrays[i + 1 :]) ** 2).sum()

    with pytest.raises(RuntimeError, match=f"{problem.name}: second derivatives"):
        jax.grad(lambda array: jax.grad(loss)(array).sum())(arrays[i])
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(loss, (arrays[i],), (arrays[i],))


def test_refusals_are_those_of_arrays(problem: Problem) -> None:
    """While JAX traces, and in the same words."""
    inputs = problem.inputs()
    grad_output = problem.grad_output(inputs)
    changes: list[Callable[[Any], Any]] = [
        lambda a: a[None],
        lambda a: a[..., :0],
        lambda a: a[1:],
        lambda a: a != 0,
        lambda a: a.reshape(-1)[:1].reshape(()),
    ]
    refused = 0
    for i, change in itertools.product(range(len(inputs) + 1), changes):
        arrays = [*inputs, grad_output]
        arrays[i] = change(arrays[i])
        for function, given in ((problem.forward, arrays[:-1]), (problem.backward, arrays)):
            try:
                function(*given)
            except (TypeError, ValueError) as error:
                refused += 1
                with pytest.raises(type(error)) as caught:
                    jax.jit(function).lower(*given)
                assert str(caught.value).replace("int32", "int64") == str(error).replace("int32", "int64")
            else:
                jax.jit(function).lower(*given)
    assert refused > 20
    for nothing in (None, "text"):
        with pytest.raises(TypeError, match=f"{problem.operator.arguments[1]}: expected an array"):
            jax.jit(lambda first, nothing=nothing: problem.forward(first, nothing, *inputs[2:]))(inputs[0])


def test_other_devices_are_refused() -> None:
    """What a GPU's XLA would call, called by the CPU's."""
    jax.ffi.register_ffi_target("deformkit_test_refuse", _native.xla_handlers()["refuse"], platform="cpu")
    with pytest.raises(Exception, match="put their arrays there with jax.device_put"):
        jax.ffi.ffi_call("deformkit_test_refuse", jax.ShapeDtypeStruct((1,), jnp.float32))().block_until_ready()


def test_export_for_any_shape(problem: Problem) -> None:
    inputs = problem.inputs()
    names = {axis: f"n{i}" for i, axis in enumerate(problem.operator.origin)}
    scope = jax.export.SymbolicScope()
    shapes = [
        jax.export.symbolic_shape(",".join("2" if axis == "2" else names[axis] for axis in axes), scope=scope)
        for axes in problem.operator.axes.values()
    ]
    arrays = [jnp.asarray(a) for a in inputs]
    arguments = [jax.ShapeDtypeStruct(shape, a.dtype) for shape, a in zip(shapes, arrays)]
    allowed = jax.export.DisabledSafetyCheck.custom_call(f"deformkit_{problem.operator.native}_forward")
    exported = jax.export.export(jax.jit(problem.forward), disabled_checks=[allowed])(*arguments)
    loaded = jax.export.deserialize(exported.serialize())
    np.testing.assert_array_equal(np.asarray(loaded.call(*arrays)), problem.forward(*inputs))


def test_many_threads(problem: Problem) -> None:
    arrays = arrays_of(problem)
    function = jax.jit(problem.forward)
    expected = np.asarray(function(*arrays))
    results: list[Any] = []

    def work() -> None:
        for count in (1, 2, 0):
            deformkit.set_num_threads(count)
            results.append(np.asarray(function(*arrays)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    for result in results:
        np.testing.assert_array_equal(result, expected)


LAYOUTS = """
#include <xla/ffi/api/c_api.h>

#include <cstddef>

#include "python/native/xla_ffi.h"

namespace xla = deformkit::python::xla;
#define SAME(ours, our_field, theirs, their_field)                                    \\
    static_assert(offsetof(xla::ours, our_field) == offsetof(theirs, their_field) &&  \\
                  sizeof(xla::ours::our_field) == sizeof(theirs::their_field), #theirs)
SAME(Extension, type, XLA_FFI_Extension_Base, type);
SAME(Extension, next, XLA_FFI_Extension_Base, next);
SAME(Version, major, XLA_FFI_Api_Version, major_version);
SAME(Version, minor, XLA_FFI_Api_Version, minor_version);
SAME(Metadata, version, XLA_FFI_Metadata, api_version);
SAME(Metadata, traits, XLA_FFI_Metadata, traits);
SAME(MetadataExtension, metadata, XLA_FFI_Metadata_Extension, metadata);
SAME(ErrorArguments, message, XLA_FFI_Error_Create_Args, message);
SAME(ErrorArguments, code, XLA_FFI_Error_Create_Args, errc);
SAME(Api, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(Buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(Buffer, data, XLA_FFI_Buffer, data);
SAME(Buffer, rank, XLA_FFI_Buffer, rank);
SAME(Buffer, dims, XLA_FFI_Buffer, dims);
SAME(Values, size, XLA_FFI_Args, size);
SAME(Values, values, XLA_FFI_Args, args);
SAME(Values, values, XLA_FFI_Rets, rets);
SAME(Name, size, XLA_FFI_ByteSpan, len);
SAME(Scalar, value, XLA_FFI_Scalar, value);
SAME(Attributes, types, XLA_FFI_Attrs, types);
SAME(Attributes, names, XLA_FFI_Attrs, names);
SAME(Attributes, values, XLA_FFI_Attrs, attrs);
SAME(CallFrame, api, XLA_FFI_CallFrame, api);
SAME(CallFrame, arguments, XLA_FFI_CallFrame, args);
SAME(CallFrame, results, XLA_FFI_CallFrame, rets);
SAME(CallFrame, attributes, XLA_FFI_CallFrame, attrs);
static_assert(xla::kMetadataExtension == XLA_FFI_Extension_Metadata);
static_assert(xla::kScalarAttribute == XLA_FFI_AttrType_SCALAR);
static_assert(xla::kInvalidArgument == XLA_FFI_Error_Code_INVALID_ARGUMENT);
static_assert(xla::kResourceExhausted == XLA_FFI_Error_Code_RESOURCE_EXHAUSTED);
static_assert(xla::kUnimplemented == XLA_FFI_Error_Code_UNIMPLEMENTED && xla::kInternal == XLA_FFI_Error_Code_INTERNAL);
static_assert(xla::kS8 == XLA_FFI_DataType_S8 && xla::kS16 == XLA_FFI_DataType_S16);
static_assert(xla::kS32 == XLA_FFI_DataType_S32 && xla::kS64 == XLA_FFI_DataType_S64);
static_assert(xla::kF16 == XLA_FFI_DataType_F16 && xla::kF32 == XLA_FFI_DataType_F32);
static_assert(xla::kF64 == XLA_FFI_DataType_F64 && xla::kBF16 == XLA_FFI_DataType_BF16);
static_assert(XLA_FFI_API_MAJOR == 0);
"""


def test_layouts_are_those_of_xla(tmp_path: Path) -> None:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "layouts.cpp"
    source.write_text(LAYOUTS)
    root = Path(__file__).resolve().parents[2]
    command = [compiler, "-std=c++17", "-fsyntax-only", f"-I{jax.ffi.include_dir()}", f"-I{root}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
