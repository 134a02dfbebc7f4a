"""mmcv.ops.multi_scale_deform_attn's functions."""

from __future__ import annotations

from ._msda import Function, from_shapes

__all__ = ["MultiScaleDeformableAttnFunction", "multi_scale_deformable_attn_pytorch"]


class MultiScaleDeformableAttnFunction(Function):
    """apply(value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights, im2col_step)"""


#: (value, value_spatial_shapes, sampling_locations, attention_weights)
multi_scale_deformable_attn_pytorch = from_shapes
