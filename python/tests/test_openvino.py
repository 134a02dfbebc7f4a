"""The operators in OpenVINO: of ONNX's nodes, and of PyTorch's operators."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from problems import Problem

openvino = pytest.importorskip("openvino")
pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx_models import node_model  # noqa: E402

import deformkit  # noqa: E402


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        with pytest.raises(FileNotFoundError, match="python -m deformkit.build_openvino"):
            deformkit.openvino_extension()
        done = subprocess.run([sys.executable, "-m", "deformkit.build_openvino"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == deformkit.openvino_extension()
        yield deformkit.openvino_extension()


def core(extension: str, threads: int = 2) -> Any:
    made = openvino.Core()
    made.add_extension(extension)
    made.set_property("CPU", {"INFERENCE_NUM_THREADS": threads})
    return made


def run(model: Any, arrays: list[Any]) -> Any:
    return model([array if array.dtype.kind == "i" else array.astype(np.float64) for array in arrays])[0]


@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])  # float64 becomes float32 in the CPU plugin
def test_onnx(problem: Problem, extension: str, kind: str) -> None:
    arrays = problem.inputs(kind)
    one = core(extension)
    model = one.read_model(node_model(problem, arrays, kind).SerializeToString())
    assert [node.get_type_name() for node in model.get_ops()].count(deformkit.onnx.NODES[problem.name]) == 1
    assert tuple(model.output().shape) == problem.operator.output_shape(*arrays)
    problem.check(run(one.compile_model(model, "CPU"), arrays), arrays, kind)


def test_dynamic_shapes(problem: Problem, extension: str) -> None:
    arrays = problem.inputs()
    one = core(extension)
    shapes = [[None] * array.ndim for array in arrays]
    model = one.compile_model(one.read_model(node_model(problem, arrays, shapes=shapes).SerializeToString()), "CPU")
    for sizes in (dict[str, Any](), {"batch": 3, "queries": 5}):
        arrays = problem.inputs(**sizes)
        problem.check(run(model, arrays), arrays)
    with pytest.raises(Exception, match=r"expected shape\[1\]"):
        run(model, [*arrays[:4], arrays[4][:, 1:]])


def test_threads_of_the_inference(problem: Problem, extension: str) -> None:
    arrays = problem.inputs(queries=900)
    results = []
    for threads in (1, 2):
        one = core(extension, threads)
        results.append(run(one.compile_model(one.read_model(node_model(problem, arrays).SerializeToString()), "CPU"), arrays))
    problem.check(results[0], arrays)
    assert np.array_equal(*results)


@pytest.mark.parametrize("exported", [False, True])
def test_torch(problem: Problem, extension: str, exported: bool, tmp_path: Path) -> None:
    """A traced model, or one of torch.export; kept in OpenVINO's own format in between."""
    torch = pytest.importorskip("torch")
    from test_torch import tensors_of
    from test_torch_compile import Model

    tensors = tuple(tensors_of(problem, requires_grad=False))
    model: Any = Model(problem).eval()
    if exported:
        converted = openvino.convert_model(torch.export.export(model, tensors), extension=extension)
    else:
        converted = openvino.convert_model(model, example_input=tensors, extension=extension)
    openvino.save_model(converted, tmp_path / "model.xml", compress_to_fp16=False)
    compiled = core(extension).compile_model(tmp_path / "model.xml", "CPU")
    arrays = [tensor.numpy() for tensor in tensors]
    problem.check(compiled(arrays)[0] - 1, arrays)
