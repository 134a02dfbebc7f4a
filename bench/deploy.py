#!/usr/bin/env python3
"""Exported models with GridSample and with the node, in ONNX Runtime and OpenVINO: whole, and one attention alone with what is
around the node. RT-DETRv2, D-FINE and RF-DETR at 640 x 640 with random weights, on 2 threads.

usage: PYTHONPATH=build/release/python python bench/deploy.py [--folder FOLDER] [--rounds N] [MODEL...]
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from pathlib import Path
from typing import Any, Callable

import numpy as np

import deformkit

THREADS = 2
SIZE = 640
NODE = "MultiScaleDeformableAttention"


def _of_transformers(kind: str, path: Path) -> None:
    import torch
    import transformers

    class Outputs(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = getattr(transformers, f"{kind}ForObjectDetection")(getattr(transformers, f"{kind}Config")())

        def forward(self, pixels: Any) -> Any:
            found = self.model(pixels)
            return found.logits, found.pred_boxes

    torch.manual_seed(0)
    with torch.no_grad():
        torch.onnx.export(
            Outputs().eval(), (torch.rand(1, 3, SIZE, SIZE),), path, dynamo=False, opset_version=17, input_names=["pixels"]
        )


def _rf_detr(path: Path) -> None:
    """By its own exporter."""
    import rfdetr

    model = rfdetr.RFDETRMedium(pretrain_weights=None, resolution=SIZE, positional_encoding_size=SIZE // 16, device="cpu")
    Path(model.export(output_dir=str(path.parent), verbose=False)).rename(path)


MODELS: dict[str, Callable[[Path], None]] = {
    "rt_detr_v2": lambda path: _of_transformers("RTDetrV2", path),
    "d_fine": lambda path: _of_transformers("DFine", path),
    "rf_detr": _rf_detr,
}


def part_of(model: Any, inputs: list[str], output: str) -> Any:
    """What is between these tensors; extents that other parts of the model compute become constants."""
    import onnx

    from deformkit.onnx._fusion import session_of

    producer = {name: node for node in model.graph.node for name in node.output}
    initializers = {i.name: i for i in model.graph.initializer}
    nodes: list[Any] = []
    used, extents, pending = set(), set(), [output]
    while pending:
        name = pending.pop()
        if name in inputs or name in used or not name:
            continue
        used.add(name)
        if name in initializers:
            continue
        if producer[name].op_type == "Shape":
            extents.add(name)
        else:
            nodes.append(producer[name])
            pending += producer[name].input
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    wanted = [*inputs, *sorted(extents)]
    probe.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    values = dict(zip(wanted, session_of(probe).run(wanted, inputs_of(model))))
    ordered = [node for node in model.graph.node if node in nodes]
    made = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, values[name].shape) for name in inputs]
    result = [onnx.helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)]
    constants = [initializers[name] for name in used if name in initializers]
    constants += [onnx.numpy_helper.from_array(values[name], name) for name in extents]
    graph = onnx.helper.make_graph(ordered, "part", made, result, constants)
    return onnx.helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)


def attention(model: Any, fused: Any) -> tuple[Any, Any]:
    """The first attention alone: of both models, between the tensors that the node's chain begins and ends with."""
    producer = {name: node for node in fused.graph.node for name in node.output}
    (node, *_) = [node for node in fused.graph.node if node.op_type == NODE]

    def beginning(name: str) -> str:
        """Before the reshape that fuse() may have put there."""
        return str(producer[name].input[0]) if name.startswith("deformkit_") else name

    inputs = [beginning(node.input[i]) for i in (0, 3, 4)]
    return part_of(model, inputs, node.output[0]), part_of(fused, inputs, node.output[0])


def in_onnxruntime(model: Any) -> Callable[[dict[str, Any]], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3
    options.register_custom_ops_library(deformkit.onnx.runtime_library())
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(None, inputs)


def in_openvino(model: Any) -> Callable[[dict[str, Any]], Any]:
    import openvino

    core = openvino.Core()
    core.add_extension(deformkit.openvino_extension())
    settings = {"INFERENCE_NUM_THREADS": THREADS, "INFERENCE_PRECISION_HINT": "f32"}
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings)
    return lambda inputs: compiled(inputs)


def inputs_of(model: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    shapes = {v.name: [axis.dim_value or 1 for axis in v.type.tensor_type.shape.dim] for v in model.graph.input}
    return {name: rng.random(shape, np.float32) for name, shape in shapes.items()}


def milliseconds(before: Any, after: Any, inputs: dict[str, Any], rounds: int, repeats: int) -> tuple[float, float]:
    """The best of rounds that take turns: what disturbs one disturbs the other."""
    best = [float("inf"), float("inf")]
    for run in (before, after):
        run(inputs)
    for _ in range(rounds):
        for i, run in enumerate((before, after)):
            start = time.perf_counter()
            for _ in range(repeats):
                run(inputs)
            best[i] = min(best[i], (time.perf_counter() - start) / repeats * 1e3)
    return best[0], best[1]


def main() -> None:
    import onnx

    import deformkit.onnx

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--folder", type=Path, default=Path("build/bench/deploy"), help="where exported models are kept")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(f"{THREADS} threads, float32, {SIZE} x {SIZE}, best of {arguments.rounds}, milliseconds")
    print(f"{'model':14}{'runtime':14}{'whole':>10}{'fused':>10}{'ratio':>8}{'attention':>12}{'node':>10}{'ratio':>8}")
    for name, export in MODELS.items():
        if arguments.models and name not in arguments.models:
            continue
        path = arguments.folder / f"{name}.onnx"
        fused_path = path.with_suffix(".fused.onnx")
        if not path.exists():
            export(path)
        if not fused_path.exists():
            deformkit.onnx.fuse(path).save(fused_path)
        model, fused = onnx.load(path), onnx.load(fused_path)
        part, fused_part = attention(model, fused)
        for runtime in (in_onnxruntime, in_openvino):
            try:
                whole = milliseconds(runtime(model), runtime(fused), inputs_of(model), arguments.rounds, 1)
                alone = milliseconds(runtime(part), runtime(fused_part), inputs_of(part), arguments.rounds, 10)
            except (ImportError, FileNotFoundError) as error:
                print(f"{name:14}{runtime.__name__[3:]:14} skipped: {error}")
                continue
            cells = "".join(f"{b:>{w}.1f}{a:>10.1f}{b / a:>7.2f}x" for (b, a), w in ((whole, 10), (alone, 12)))
            print(f"{name:14}{runtime.__name__[3:]:14}{cells}", flush=True)


if __name__ == "__main__":
    main()
