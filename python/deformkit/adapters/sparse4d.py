"""deformable_aggregation of Sparse4D and SparseDrive."""

from __future__ import annotations

from typing import Any

import torch

from .._da import OPERATOR
from .._functions import OperatorFunction, Signature
from .._operator import renamed

__all__ = ["DeformableAggregationFunction", "deformable_aggregation_function"]

_SIGNATURE = Signature(OPERATOR, ("mc_ms_feat", "spatial_shape", "scale_start_index", "sampling_location", "weights"))


class DeformableAggregationFunction(OperatorFunction):
    """apply(mc_ms_feat, spatial_shape, scale_start_index, sampling_location, weights)

    Computes in float32, whatever comes, as the original."""

    signature = _SIGNATURE

    @staticmethod
    def forward(
        ctx: Any,
        mc_ms_feat: torch.Tensor,
        spatial_shape: torch.Tensor,
        scale_start_index: torch.Tensor,
        sampling_location: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        return _SIGNATURE.forward(
            ctx, mc_ms_feat, spatial_shape, scale_start_index, sampling_location, weights, dtype=torch.float32
        )

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> tuple[Any, ...]:
        return _SIGNATURE.backward(ctx, grad_output)


def deformable_aggregation_function(
    feature_maps: torch.Tensor,
    spatial_shape: torch.Tensor,
    scale_start_index: torch.Tensor,
    sampling_location: torch.Tensor,
    weights: torch.Tensor,
) -> Any:
    """The same, with another name of the first argument."""
    try:
        return DeformableAggregationFunction.apply(feature_maps, spatial_shape, scale_start_index, sampling_location, weights)
    except (TypeError, ValueError) as error:
        raise renamed(error, {"mc_ms_feat": "feature_maps"}) from None
