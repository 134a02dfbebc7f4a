"""The functions. Like the originals they take floating-point tensors of different types and compute in the first one's."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from .. import _da, _gka, _msda
from .._operator import Operator, renamed


class _Function:
    """Stands in for the original's torch.autograd.Function, of which `apply` is used."""

    operator: Operator

    @classmethod
    def apply(cls, *tensors: torch.Tensor) -> Any:
        """As deformkit's function of the same name, with tables as integers, and what has gradients in the first one's type."""
        names = cls.operator.arguments
        if len(tensors) != len(names):
            raise TypeError(f"expected {len(names)} arguments ({', '.join(names)}), got {len(tensors)}")
        ready = list(tensors)
        for i, tensor in enumerate(tensors):
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"{names[i]}: expected a tensor, got {type(tensor).__name__}")
            if i in cls.operator.table_positions and tensor.is_floating_point():
                ready[i] = tensor.int()
            elif i in cls.operator.gradient_positions:
                ready[i] = tensor.to(tensors[0].dtype)
        return cls.operator.forward(*ready)


class MultiScaleDeformableAttnFunction(_Function):
    operator = _msda.OPERATOR


class AdsDeformableAggregation(_Function):
    operator = _da.OPERATOR


class GeometricKernelAttentionFunc(_Function):
    operator = _gka.OPERATOR


deformable_aggregation = npu_deformable_aggregation = AdsDeformableAggregation.apply
geometric_kernel_attention = GeometricKernelAttentionFunc.apply
multi_scale_deformable_attn = MultiScaleDeformableAttnFunction.apply


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
