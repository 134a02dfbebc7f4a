"""torch-ms-deform-attn's functions, with its errors: RuntimeError, in words that its tests look for."""

from __future__ import annotations

from typing import Any

import torch

from .._msda import multi_scale_deformable_attn
from ._msda import from_shapes

__all__ = ["MSDeformAttnFunction", "ms_deform_attn", "ms_deform_attn_core_pytorch"]

#: (value, value_spatial_shapes, sampling_locations, attention_weights)
ms_deform_attn_core_pytorch = from_shapes
_LOW = (torch.float16, torch.bfloat16)


def ms_deform_attn(
    value: torch.Tensor,
    spatial_shapes: torch.Tensor,
    level_start_index: torch.Tensor,
    sampling_locations: torch.Tensor,
    attention_weights: torch.Tensor,
    im2col_step: int = 64,
    *,
    check_cuda_metadata: bool = False,
) -> Any:
    """multi_scale_deformable_attn. Under autocast float16 and bfloat16 become float32, and so does the result. Levels have to
    lie within `value`. im2col_step has to be positive; it has no further effect, and neither has check_cuda_metadata."""
    floats = [value, sampling_locations, attention_weights]
    if torch.is_autocast_enabled("cpu"):
        floats = [tensor.float() if tensor.dtype in _LOW else tensor for tensor in floats]
    if floats[0].dtype not in (torch.float32, torch.float64, *_LOW):
        raise RuntimeError(f"value: expected float16, bfloat16, or what is computed in, float32 and float64; got {value.dtype}")
    if any(tensor.dtype != floats[0].dtype for tensor in floats):
        raise RuntimeError(f"dtypes must match: {', '.join(str(tensor.dtype) for tensor in floats)}")
    if spatial_shapes.dtype != torch.int64 or level_start_index.dtype != torch.int64:
        raise RuntimeError("spatial_shapes, level_start_index: expected int64")
    if im2col_step <= 0:
        raise RuntimeError(f"im2col_step: expected a positive number, got {im2col_step}")
    tensors = floats[0], spatial_shapes, level_start_index, *floats[1:]
    if torch.compiler.is_compiling():  # what tables hold is not known yet
        return multi_scale_deformable_attn(*tensors)
    _check_levels(*tensors[:3])
    try:
        return multi_scale_deformable_attn(*tensors)
    except ValueError as error:
        raise RuntimeError(f"invalid shape: {error}") from None


def _check_levels(value: torch.Tensor, spatial_shapes: torch.Tensor, level_start_index: torch.Tensor) -> None:
    if value.ndim != 4 or spatial_shapes.ndim != 2 or spatial_shapes.shape[1] != 2 or level_start_index.ndim != 1:
        return  # which the operator refuses
    for (height, width), start in zip(spatial_shapes.tolist(), level_start_index.tolist()):
        if height <= 0 or width <= 0 or start < 0 or start + height * width > value.shape[1]:
            raise RuntimeError(
                f"level of {height} x {width} cells from {start} on: exceeds value, which has {value.shape[1]}, or is empty"
            )


class MSDeformAttnFunction:
    """apply(value, shapes, starts, locations, weights, im2col_step): ms_deform_attn, as the original."""

    @staticmethod
    def apply(
        value: torch.Tensor,
        shapes: torch.Tensor,
        starts: torch.Tensor,
        locations: torch.Tensor,
        weights: torch.Tensor,
        im2col_step: int,
    ) -> Any:
        return ms_deform_attn(value, shapes, starts, locations, weights, im2col_step)
