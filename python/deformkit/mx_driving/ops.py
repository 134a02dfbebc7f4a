"""The operators as torch.autograd.Functions, with the originals' arguments, checks and types."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .. import _da, _gka, _msda
from .._functions import OperatorFunction, Signature
from .._operator import renamed

__all__ = [
    "AdsDeformableAggregation",
    "GeometricKernelAttentionFunc",
    "MultiScaleDeformableAttnFunction",
    "deformable_aggregation",
    "geometric_kernel_attention",
    "multi_scale_deformable_attn",
    "npu_deformable_aggregation",
    "npu_geometric_kernel_attention",
    "npu_geometric_kernel_attention_func",
    "npu_multi_scale_deformable_attn_function",
    "onnx_msda",
]


def _refuse_empty(*tensors: torch.Tensor) -> None:
    if not all(tensor.numel() for tensor in tensors):
        raise ValueError("Erorr! Input Tensor can not be a empty Tensor.\n")  # as the originals spell it: their tests compare


_MSDA = Signature(_msda.OPERATOR, _msda.OPERATOR.arguments)
_DA = Signature(_da.OPERATOR, ("mc_ms_feat", "spatial_shape", "scale_start_index", "sampling_location", "weights"))
_GKA = Signature(_gka.OPERATOR, _gka.OPERATOR.arguments)


class MultiScaleDeformableAttnFunction(OperatorFunction):
    """Under autocast computes in float32, as the original."""

    signature = _MSDA

    @staticmethod
    def forward(
        ctx: Any,
        value: torch.Tensor,
        value_spatial_shapes: torch.Tensor,
        value_level_start_index: torch.Tensor,
        sampling_locations: torch.Tensor,
        attention_weights: torch.Tensor,
        **ignored: Any,
    ) -> torch.Tensor:
        tensors = (value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights)
        if all(isinstance(tensor, torch.Tensor) for tensor in tensors):
            _refuse_empty(value, value_spatial_shapes, attention_weights)
        wide = torch.is_autocast_enabled("cpu") and value.dtype != torch.float64
        return _MSDA.forward(ctx, *tensors, dtype=torch.float32 if wide else None)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        return _MSDA.backward(ctx, grad_output)

    @staticmethod
    def symbolic(g: Any, value: Any, value_spatial_shapes: Any, value_level_start_index: Any, *others: Any) -> Any:
        """The node that the vendor's converter knows."""
        to_int32 = {"to_i": torch._C._onnx.TensorProtoDataType.INT32}
        tables = (g.op("Cast", table, **to_int32) for table in (value_spatial_shapes, value_level_start_index))
        return g.op("npu::MultiScaleDeformableAttn", value, *tables, *others).setType(value.type())


class AdsDeformableAggregation(OperatorFunction):
    signature = _DA

    @staticmethod
    def forward(
        ctx: Any,
        mc_ms_feat: torch.Tensor,
        spatial_shape: torch.Tensor,
        scale_start_index: torch.Tensor,
        sampling_location: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        if isinstance(mc_ms_feat, torch.Tensor) and isinstance(weights, torch.Tensor):
            _refuse_empty(mc_ms_feat, weights)
        return _DA.forward(ctx, mc_ms_feat, spatial_shape, scale_start_index, sampling_location, weights)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        mc_ms_feat, spatial_shape, _, sampling_location, _ = ctx.saved_tensors
        _refuse_empty(mc_ms_feat, spatial_shape, sampling_location)
        return _DA.backward(ctx, grad_output)


class GeometricKernelAttentionFunc(OperatorFunction):
    signature = _GKA

    @staticmethod
    def forward(
        ctx: Any,
        value: torch.Tensor,
        spatial_shapes: torch.Tensor,
        level_start_index: torch.Tensor,
        sampling_locations: torch.Tensor,
        attention_weights: torch.Tensor,
    ) -> torch.Tensor:
        return _GKA.forward(ctx, value, spatial_shapes, level_start_index, sampling_locations, attention_weights)

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        return _GKA.backward(ctx, grad_output)


deformable_aggregation = npu_deformable_aggregation = AdsDeformableAggregation.apply
geometric_kernel_attention = npu_geometric_kernel_attention = GeometricKernelAttentionFunc.apply
npu_geometric_kernel_attention_func = GeometricKernelAttentionFunc.apply
multi_scale_deformable_attn = onnx_msda = MultiScaleDeformableAttnFunction.apply


def npu_multi_scale_deformable_attn_function(
    value: torch.Tensor, shape: torch.Tensor, offset: torch.Tensor, locations: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """The older name of multi_scale_deformable_attn."""
    warnings.warn("use multi_scale_deformable_attn", DeprecationWarning, stacklevel=2)
    try:
        return multi_scale_deformable_attn(value, shape, offset, locations, weight)
    except Exception as error:
        own = ("value", "shape", "offset", "locations", "weight")
        raise renamed(error, dict(zip(_msda.OPERATOR.arguments, own))) from None
