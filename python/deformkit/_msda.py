"""Multi-scale deformable attention."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from ._arrays import Array, SupportsDLPack
from ._operator import Operator

OPERATOR = Operator(
    "multi_scale_deformable_attn",
    native="msda",
    arguments={
        "value": "B K M D",
        "value_spatial_shapes": "L 2",
        "value_level_start_index": "L",
        "sampling_locations": "B Q M L P 2",
        "attention_weights": "B Q M L P",
    },
    output="B Q M*D",
    gradients=("value", "sampling_locations", "attention_weights"),
    native_names={"value_spatial_shapes": "spatial_shapes", "value_level_start_index": "level_start_index"},
)


def multi_scale_deformable_attn(
    value: Array,
    value_spatial_shapes: SupportsDLPack,
    value_level_start_index: SupportsDLPack,
    sampling_locations: Array,
    attention_weights: Array,
) -> Array:
    """Multi-scale deformable attention (Deformable DETR, Zhu et al. 2020, equation 3).

    Arrays of NumPy, PyTorch, JAX or any library that speaks DLPack, with any strides, are read where they lie. Tensors of PyTorch
    are differentiable in `value`, `sampling_locations` and `attention_weights`.

    Args:
        value: [B, K, M, D], the feature maps of all levels, flattened to K cells; M heads of D channels.
        value_spatial_shapes: [L, 2], int32 or int64, (H, W) of each level.
        value_level_start_index: [L], int32 or int64, the first cell of each level.
        sampling_locations: [B, Q, M, L, P, 2], as value, (x, y) from 0 to 1, from edge to edge of the map.
        attention_weights: [B, Q, M, L, P], as value, used as they are: no softmax.

    Returns:
        [B, Q, M * D], as value: for each query and head the weighted sum of its L * P bilinear samples. A sample outside the map
        counts as zero, as with grid_sample's align_corners=False and zero padding.

    Raises:
        TypeError: no array, or types that do not go together.
        ValueError: a shape that does not fit the others, or arrays that are not all in host memory or on one device.
        MemoryError, RuntimeError: the library ran out of memory, or has no kernel for this machine.
    """
    return OPERATOR.forward(value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights)


def multi_scale_deformable_attn_backward(
    value: Array,
    value_spatial_shapes: SupportsDLPack,
    value_level_start_index: SupportsDLPack,
    sampling_locations: Array,
    attention_weights: Array,
    grad_output: Array,
    *,
    wanted: Optional[Iterable[str]] = None,
) -> tuple[Optional[Array], Optional[Array], Optional[Array]]:
    """The gradients of multi_scale_deformable_attn, for users without automatic differentiation.

    Args:
        value, value_spatial_shapes, value_level_start_index, sampling_locations, attention_weights: as for the forward function.
        grad_output: [B, Q, M * D], as value, the gradient of what is minimised with respect to the output.
        wanted: names out of "value", "sampling_locations", "attention_weights". The work for others is left out. None: all.

    Returns:
        The gradients with respect to value, sampling_locations and attention_weights, each of its argument's shape and type; None
        in place of one that is not wanted.

    Raises:
        As the forward function; ValueError for an unknown name in `wanted`.
    """
    return OPERATOR.backward(
        value,
        value_spatial_shapes,
        value_level_start_index,
        sampling_locations,
        attention_weights,
        grad_output=grad_output,
        wanted=wanted,
    )
