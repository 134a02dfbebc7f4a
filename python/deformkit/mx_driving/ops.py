"""The functions. Like the originals they take floating-point tensors of different types, and compute in the first one's."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .. import _msda
from .._operator import Operator


def _call(operator: Operator, *tensors: torch.Tensor) -> torch.Tensor:
    """With tables as integers and everything differentiable in the type of the first."""
    ready = list(tensors)
    for i in operator.table_positions:
        if ready[i].is_floating_point():
            ready[i] = ready[i].int()
    for i in operator.gradient_positions:
        ready[i] = ready[i].to(ready[0].dtype)
    return operator.forward(*ready)


class MultiScaleDeformableAttnFunction:
    """Stands in for the original's torch.autograd.Function, of which `apply` is used."""

    @staticmethod
    def apply(
        value: torch.Tensor,
        value_spatial_shapes: torch.Tensor,
        value_level_start_index: torch.Tensor,
        sampling_locations: torch.Tensor,
        attention_weights: torch.Tensor,
        **ignored: Any,
    ) -> torch.Tensor:
        """As deformkit.multi_scale_deformable_attn."""
        return _call(
            _msda.OPERATOR,
            value,
            value_spatial_shapes,
            value_level_start_index,
            sampling_locations,
            attention_weights,
        )


multi_scale_deformable_attn = MultiScaleDeformableAttnFunction.apply


def npu_multi_scale_deformable_attn_function(
    value: torch.Tensor, shape: torch.Tensor, offset: torch.Tensor, locations: torch.Tensor, weight: torch.Tensor
) -> torch.Tensor:
    """The older name of multi_scale_deformable_attn."""
    warnings.warn("use multi_scale_deformable_attn", DeprecationWarning, stacklevel=2)
    return multi_scale_deformable_attn(value, shape, offset, locations, weight)
