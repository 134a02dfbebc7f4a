"""ONNX models of a single node, and sessions to run them."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import onnx
import onnxruntime
from problems import Problem

import deformkit.onnx

FLOATS = ("float32", "float16", "bfloat16", "float64")


def element_type(name: str) -> int:
    return {"float64": onnx.TensorProto.DOUBLE, "float32": onnx.TensorProto.FLOAT}.get(name) or getattr(
        onnx.TensorProto, name.upper()
    )


def node_model(problem: Problem, arrays: list[Any], dtype: str = "float32", shapes: Optional[list[Any]] = None) -> Any:
    """Inputs with the shapes of `arrays`, or those given, which may hold names. Floats come and go as float64, and are cast to
    `dtype` for the node: NumPy has no bfloat16."""
    names = problem.operator.arguments
    inputs, nodes, taken = [], [], []
    for name, array, shape in zip(names, arrays, shapes or [array.shape for array in arrays]):
        floating = array.dtype.kind != "i"
        kind = onnx.TensorProto.DOUBLE if floating else element_type(array.dtype.name)
        inputs.append(onnx.helper.make_tensor_value_info(name, kind, shape))
        taken.append(f"{name}_cast" if floating else name)
        if floating:
            nodes.append(onnx.helper.make_node("Cast", [name], [taken[-1]], to=element_type(dtype)))
    nodes.append(onnx.helper.make_node(deformkit.onnx.NODES[problem.name], taken, ["result"], domain="deformkit"))
    nodes.append(onnx.helper.make_node("Cast", ["result"], ["output"], to=onnx.TensorProto.DOUBLE))
    output = onnx.helper.make_tensor_value_info("output", onnx.TensorProto.DOUBLE, None)
    graph = onnx.helper.make_graph(nodes, "one_node", inputs, [output])
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("deformkit", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def session(model: Any, **settings: Any) -> Any:
    options = onnxruntime.SessionOptions()
    for name, value in settings.items():
        setattr(options, name, value)
    options.register_custom_ops_library(deformkit.onnx.runtime_library())
    source = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def run(model: Any, arrays: list[Any]) -> Any:
    given = [array if array.dtype.kind == "i" else array.astype(np.float64) for array in arrays]
    return model.run(None, dict(zip([i.name for i in model.get_inputs()], given)))[0]
