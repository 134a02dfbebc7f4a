"""The operators as nodes of ONNX models in ONNX Runtime, from Python and from C."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import PROBLEMS, Problem

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

from onnx_models import FLOATS, node_model, run, session  # noqa: E402

import deformkit.onnx  # noqa: E402


@pytest.mark.parametrize("kind", FLOATS)
def test_result(problem: Problem, kind: str) -> None:
    arrays = problem.inputs(kind)
    problem.check(run(session(node_model(problem, arrays, kind)), arrays), arrays, kind)


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_index_types(problem: Problem, index: str) -> None:
    arrays = problem.inputs()
    for i in problem.operator.table_positions:
        arrays[i] = arrays[i].astype(index)
    problem.check(run(session(node_model(problem, arrays)), arrays), arrays)


def test_symbolic_shapes(problem: Problem) -> None:
    """Names of axes go through the node, and one session serves all sizes."""
    operator = problem.operator
    sizes = [problem.inputs(), problem.inputs(batch=3, queries=5), problem.inputs(batch=1, queries=300)]
    named = [
        [axis if axis in ("B", operator.axes[operator.arguments[3]][1]) else n for axis, n in zip(operator.axes[name], a.shape)]
        for name, a in zip(operator.arguments, sizes[0])
    ]
    one = session(node_model(problem, sizes[0], shapes=named))
    (output,) = one.get_outputs()
    assert output.shape == [named[0][0], named[3][1], operator.output_shape(*sizes[0])[2]]
    for arrays in sizes:
        problem.check(run(one, arrays), arrays)


def test_unknown_shapes(problem: Problem) -> None:
    """None at all, or none of the extents; a later node must not be told a wrong one."""
    arrays = problem.inputs()
    for shapes in ([None] * 5, [[None] * array.ndim for array in arrays]):
        model = node_model(problem, arrays, shapes=shapes)
        zeros = np.zeros(problem.operator.output_shape(*arrays)[2])
        model.graph.initializer.append(onnx.numpy_helper.from_array(zeros, "zeros"))
        model.graph.node.append(onnx.helper.make_node("Add", ["output", "zeros"], ["sum"]))
        model.graph.output[0].name = "sum"
        problem.check(run(session(model), arrays), arrays)


def test_empty(problem: Problem) -> None:
    arrays = problem.inputs(queries=0)
    assert run(session(node_model(problem, arrays)), arrays).shape == problem.operator.output_shape(*arrays)


def test_refusals(problem: Problem) -> None:
    """In the library's words, whether the rank is wrong or an extent."""
    arrays = problem.inputs()
    one = session(node_model(problem, arrays, shapes=[None] * 5))
    last = {"weight": "weights"}.get(problem.operator.arguments[4], problem.operator.arguments[4])
    for wrong, expected in ((arrays[4][:, 1:], r"shape\[1\]"), (arrays[4][0], f"{arrays[4].ndim} axes")):
        with pytest.raises(Exception, match=f"{last}: expected {expected}"):
            run(one, [*arrays[:4], wrong])
    with pytest.raises(Exception, match=r"value: expected 4 axes|feature_maps: expected 3 axes"):
        run(one, [arrays[0][0], *arrays[1:]])


def test_threads_of_the_session() -> None:
    """Whatever their number: the same bits, and no thread but the session's own."""
    problem = PROBLEMS[0]
    arrays = problem.inputs(queries=900, levels=((25, 42), (13, 21)), channels=32)
    results = []
    for threads in (1, 2, 5):
        one = session(node_model(problem, arrays), intra_op_num_threads=threads)
        before = _threads_of_process()
        results.append(run(one, arrays))
        assert _threads_of_process() == before
        del one
    problem.check(results[0], arrays)
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def _threads_of_process() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_sessions_at_once(problem: Problem) -> None:
    arrays = problem.inputs(queries=200)
    sessions = [session(node_model(problem, arrays), intra_op_num_threads=2) for _ in range(2)]
    results: list[Any] = [None] * 4

    def work(i: int) -> None:
        for _ in range(20):
            results[i] = run(sessions[i % 2], arrays)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(results))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        problem.check(result, arrays)


def test_from_c(tmp_path: Path) -> None:
    """A program that is given ONNX Runtime's library, this one and a model."""
    libraries = sorted(Path(onnxruntime.__file__).parent.glob("capi/libonnxruntime.so.*"))
    libraries += sorted(Path(onnxruntime.__file__).parent.glob("capi/onnxruntime_pybind11_state*.so"))
    problem = PROBLEMS[0]
    arrays = problem.inputs(queries=3)
    (tmp_path / "model.onnx").write_bytes(_all_constant(problem, arrays).SerializeToString())
    program = tmp_path / "session"
    source = Path(__file__).resolve().parent / "onnxruntime_session.c"
    subprocess.run(["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", str(source), "-o", str(program), "-ldl"], check=True)
    command = [str(program), str(libraries[0]), deformkit.onnx.runtime_library(), str(tmp_path / "model.onnx")]
    done = subprocess.run(command, capture_output=True, text=True)
    if "undefined symbol: Py" in done.stderr:
        pytest.skip("this ONNX Runtime is part of its Python module")
    assert done.returncode == 0, done.stderr
    values = np.array(done.stdout.split(), np.float64)
    problem.check(values.reshape(problem.operator.output_shape(*arrays)), arrays)


def _all_constant(problem: Problem, arrays: list[Any]) -> Any:
    """One input, a float32 scalar that is added to the sampling locations."""
    names = problem.operator.arguments
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in zip(names, arrays)]
    moved = [*names[:3], "moved", names[4]]
    nodes = [
        onnx.helper.make_node("Add", [names[3], "offset"], ["moved"]),
        onnx.helper.make_node(deformkit.onnx.NODES[problem.name], moved, ["output"], domain="deformkit"),
    ]
    scalar = onnx.helper.make_tensor_value_info("offset", onnx.TensorProto.FLOAT, [1])
    output = onnx.helper.make_tensor_value_info("output", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(nodes, "constants", [scalar], [output], constants)
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("deformkit", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
