"""msda-triton's functions."""

from __future__ import annotations

from typing import Any

import torch

from .._operator import renamed
from ._msda import from_shapes

__all__ = [
    "multiscale_deformable_attention",
    "native_multiscale_deformable_attention",
    "triton_multiscale_deformable_attention",
]

_NAMES = {
    "value": "img",
    "value_spatial_shapes": "img_shapes",
    "sampling_locations": "sampling_points",
}


def multiscale_deformable_attention(
    img: torch.Tensor,
    img_shapes: torch.Tensor,
    sampling_points: torch.Tensor,
    attention_weights: torch.Tensor,
    padding_mode: str,
    align_corners: bool,
) -> Any:
    """multi_scale_deformable_attn, with the heads of the result apart.

    Args:
        img: [B, K, M, D], levels one after the other.
        img_shapes: [L, 2], (H, W) of each level.
        sampling_points: [B, Q, M, L, P, 2], (x, y) from 0 to 1.
        attention_weights: [B, Q, M, L, P].
        padding_mode: what is outside: "zeros", or "border", the nearest cell.
        align_corners: whether 0 and 1 are the middles of the outermost cells; else they are the edges of the map.

    Returns:
        [B, Q, M, D].
    """
    if padding_mode not in ("zeros", "border"):
        raise ValueError(f"padding_mode: expected 'zeros' or 'border', got {padding_mode!r}")
    try:
        if align_corners or padding_mode == "border":
            sampling_points = _as_from_edge_to_edge(sampling_points, img_shapes, padding_mode, align_corners)
        output = from_shapes(img, img_shapes, sampling_points, attention_weights)
    except (TypeError, ValueError) as error:
        raise renamed(error, _NAMES) from None
    return output.unflatten(-1, img.shape[2:])


def _as_from_edge_to_edge(points: torch.Tensor, shapes: torch.Tensor, padding_mode: str, align_corners: bool) -> torch.Tensor:
    """Points at which the operator finds the same cells, with zeros outside."""
    size = shapes.flip(-1).to(points.device)[:, None].to(points.dtype)  # [L, 1, (W, H)]
    cells = points * (size - 1) if align_corners else points * size - 0.5
    if padding_mode == "border":
        cells = torch.minimum(cells.clamp(min=0), size - 1)
    return (cells + 0.5) / size


native_multiscale_deformable_attention = triton_multiscale_deformable_attention = multiscale_deformable_attention
