"""geometric_kernel_attn of GKT and MapTR."""

from __future__ import annotations

from typing import Any

import torch

from .._functions import OperatorFunction, Signature
from .._gka import OPERATOR

__all__ = ["GeometricKernelAttentionFunc"]

_SIGNATURE = Signature(
    OPERATOR,
    ("value", "value_spatial_shapes", "value_level_start_index", "sampling_locations", "attention_weights"),
    options=("im2col_step",),
)


class GeometricKernelAttentionFunc(OperatorFunction):
    """apply(value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights, im2col_step)

    Computes in the type of `value`; locations may be integers, as the originals want them. im2col_step has no effect."""

    signature = _SIGNATURE

    @staticmethod
    def forward(
        ctx: Any,
        value: torch.Tensor,
        value_spatial_shapes: torch.Tensor,
        value_level_start_index: torch.Tensor,
        sampling_locations: torch.Tensor,
        attention_weights: torch.Tensor,
        im2col_step: Any = None,
    ) -> torch.Tensor:
        return _SIGNATURE.forward(
            ctx, value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights
        )

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        return _SIGNATURE.backward(ctx, grad_output)
