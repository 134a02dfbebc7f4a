"""Models exported by PyTorch: one node per operator, or standard operators only; both give what PyTorch gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from problems import Problem

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")

from onnx_models import session  # noqa: E402
from test_torch import tensors_of  # noqa: E402
from test_torch_compile import Model  # noqa: E402

import deformkit.onnx  # noqa: E402


def export(problem: Problem, tensors: Any, path: Path, decompose: bool = False, **options: Any) -> Any:
    table = deformkit.onnx.translations(decompose=decompose)
    options = {"custom_translation_table": table, "input_names": list(problem.operator.arguments), "verbose": False, **options}
    torch.onnx.export(Model(problem).eval(), tuple(tensors), path, dynamo=True, **options)
    return onnx.load(path)


def run(model: Any, problem: Problem, tensors: Any) -> Any:
    given = dict(zip(problem.operator.arguments, (tensor.numpy() for tensor in tensors)))
    return torch.from_numpy(session(model).run(None, given)[0])


@pytest.mark.parametrize("kind, decompose", [("float32", False), ("float16", False), ("float32", True)])
def test_export(problem: Problem, kind: str, decompose: bool, tmp_path: Path) -> None:
    tensors = tensors_of(problem, kind, requires_grad=False)
    model = export(problem, tensors, tmp_path / "model.onnx", decompose)
    nodes = [node.op_type for node in model.graph.node if node.domain == deformkit.onnx.DOMAIN]
    assert nodes == ([] if decompose else [deformkit.onnx.NODES[problem.name]])
    assert all(node.domain in ("", deformkit.onnx.DOMAIN) for node in model.graph.node)
    shape = tuple(axis.dim_value for axis in model.graph.output[0].type.tensor_type.shape.dim)
    assert shape == problem.operator.output_shape(*tensors)
    others = tensors_of(problem, kind, requires_grad=False, seed=1)
    tolerance = {"float32": 1e-5, "float16": 4e-3}[kind]
    torch.testing.assert_close(run(model, problem, others), problem.forward(*others) + 1, rtol=tolerance, atol=tolerance)
