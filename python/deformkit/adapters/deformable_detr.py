"""The functions of Deformable DETR's models/ops/functions, which many models carry along."""

from __future__ import annotations

from ._msda import Function, from_shapes

__all__ = ["MSDeformAttnFunction", "ms_deform_attn_core_pytorch"]


class MSDeformAttnFunction(Function):
    """apply(value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights, im2col_step)"""


#: (value, value_spatial_shapes, sampling_locations, attention_weights)
ms_deform_attn_core_pytorch = from_shapes
