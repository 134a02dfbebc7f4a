"""Deformable aggregation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from ._arrays import Array, SupportsDLPack
from ._operator import Operator

OPERATOR = Operator(
    "deformable_aggregation",
    native="deformable_aggregation",
    arguments={
        "feature_maps": "B num_feat C",
        "spatial_shape": "cameras scales 2",
        "scale_start_index": "cameras scales",
        "sample_locations": "B anchors points cameras 2",
        "weight": "B anchors points cameras scales groups",
    },
    output="B anchors C",
    gradients=("feature_maps", "sample_locations", "weight"),
    native_names={"weight": "weights"},
    divisible=("C", "groups"),
)


def deformable_aggregation(
    feature_maps: Array,
    spatial_shape: SupportsDLPack,
    scale_start_index: SupportsDLPack,
    sample_locations: Array,
    weight: Array,
) -> Array:
    """Deformable aggregation (Sparse4D, Lin et al. 2022).

    Arrays of NumPy, PyTorch, JAX or any library that speaks DLPack, with any strides, are read where they lie. Tensors of PyTorch
    are differentiable in `feature_maps`, `sample_locations` and `weight`.

    Args:
        feature_maps: [B, num_feat, C], the maps of all cameras and scales, flattened.
        spatial_shape: [cameras, scales, 2], int32 or int64, (H, W) of each map.
        scale_start_index: [cameras, scales], int32 or int64, the row of each map's first cell.
        sample_locations: [B, anchors, points, cameras, 2], as feature_maps, (x, y) from 0 to 1, from edge to edge of the map. One
            that is not inside, 0 < x < 1 and 0 < y < 1, is skipped.
        weight: [B, anchors, points, cameras, scales, groups], as feature_maps; groups must divide C.

    Returns:
        [B, anchors, C], as feature_maps: the weighted sum over points, cameras and scales of bilinear samples. Channel c takes
        the weight of group c // (C // groups).

    Raises:
        TypeError: no array, or types that do not go together.
        ValueError: a shape that does not fit the others, or arrays that are not all in host memory or on one device.
        MemoryError, RuntimeError: the library ran out of memory, or has no kernel for this machine.
    """
    return OPERATOR.forward(feature_maps, spatial_shape, scale_start_index, sample_locations, weight)


def deformable_aggregation_backward(
    feature_maps: Array,
    spatial_shape: SupportsDLPack,
    scale_start_index: SupportsDLPack,
    sample_locations: Array,
    weight: Array,
    grad_output: Array,
    *,
    wanted: Optional[Iterable[str]] = None,
) -> tuple[Optional[Array], Optional[Array], Optional[Array]]:
    """The gradients of deformable_aggregation, for users without automatic differentiation.

    Args:
        feature_maps, spatial_shape, scale_start_index, sample_locations, weight: as for the forward function.
        grad_output: [B, anchors, C], as feature_maps, the gradient of what is minimised with respect to the output.
        wanted: names out of "feature_maps", "sample_locations", "weight". The work for others is left out. None: all.

    Returns:
        The gradients with respect to feature_maps, sample_locations and weight, each of its argument's shape and type; None in
        place of one that is not wanted.

    Raises:
        As the forward function; ValueError for an unknown name in `wanted`.
    """
    return OPERATOR.backward(
        feature_maps,
        spatial_shape,
        scale_start_index,
        sample_locations,
        weight,
        grad_output=grad_output,
        wanted=wanted,
    )
