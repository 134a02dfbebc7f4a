"""ONNX models with the operators as nodes, domain "deformkit": docs/deploy.md. onnx and onnxscript are imported when needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional

if TYPE_CHECKING:
    from ._fusion import Fusion

DOMAIN = "deformkit"
#: Operator -> type of its node. Inputs and output are those of the function.
NODES = {
    "multi_scale_deformable_attn": "MultiScaleDeformableAttention",
    "deformable_aggregation": "DeformableAggregation",
    "geometric_kernel_attention": "GeometricKernelAttention",
}


def runtime_library() -> str:
    """What an ONNX Runtime session takes: options.register_custom_ops_library(deformkit.onnx.runtime_library())."""
    return str(Path(__file__).parents[1] / "libdeformkit_onnxruntime.so")


def translations(*, decompose: bool = False) -> dict[Callable[..., Any], Callable[..., Any]]:
    """What PyTorch's exporter needs to know about the operators:

        torch.onnx.export(model, inputs, "model.onnx", dynamo=True, custom_translation_table=deformkit.onnx.translations())

    Args:
        decompose: standard operators of ONNX in place of one node for each, for where the node is not to be had. Slower.
    """
    from ._translations import translations

    return translations(decompose)


def fuse(model: str | Path | Any, *, inputs: Optional[dict[str, Any]] = None, compare: bool = True) -> Fusion:
    """Puts one node in place of each chain of GridSample that exporters make of multi-scale deformable attention.

    Args:
        model: a path or a ModelProto, which is not changed. All extents but the batch must be fixed.
        inputs: arrays by name for the run that finds out shapes, and for the comparison. None: random ones.
        compare: run the new model as well.

    Returns:
        The new model, what was replaced, what was not recognised and why, and the largest difference of each output.
    """
    from ._fusion import fuse

    return fuse(model, inputs, compare)
