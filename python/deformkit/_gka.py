"""Geometric kernel attention."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from ._arrays import Array, SupportsDLPack
from ._operator import Operator

OPERATOR = Operator(
    "geometric_kernel_attention",
    native="geometric_kernel_attention",
    arguments={
        "value": "B K M D",
        "spatial_shapes": "L 2",
        "level_start_index": "L",
        "sampling_locations": "B Q M L P 2",
        "attention_weights": "B Q M L P",
    },
    output="B Q M*D",
    gradients=("value", "attention_weights"),
)


def geometric_kernel_attention(
    value: Array,
    spatial_shapes: SupportsDLPack,
    level_start_index: SupportsDLPack,
    sampling_locations: SupportsDLPack,
    attention_weights: Array,
) -> Array:
    """Geometric kernel attention (GKT, Chen et al. 2022): multi-scale deformable attention without interpolation.

    Arrays of NumPy, PyTorch, JAX or any library that speaks DLPack, with any strides, are read where they lie. Tensors of PyTorch
    are differentiable in `value` and `attention_weights`.

    Args:
        value: [B, K, M, D], the feature maps of all levels, flattened to K cells; M heads of D channels.
        spatial_shapes: [L, 2], int32 or int64, (H, W) of each level.
        level_start_index: [L], int32 or int64, the first cell of each level.
        sampling_locations: [B, Q, M, L, P, 2], of a floating-point or integer type of its own, (column, row) in cells. They are
            truncated toward zero and clamped to the map.
        attention_weights: [B, Q, M, L, P], as value, used as they are: no softmax.

    Returns:
        [B, Q, M * D], as value: for each query and head the weighted sum of its L * P cells.

    Raises:
        TypeError: no array, or types that do not go together.
        ValueError: a shape that does not fit the others, or arrays that are not all in host memory or on one device.
        MemoryError, RuntimeError: the library ran out of memory, or has no kernel for this machine.
    """
    return OPERATOR.forward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights)


def geometric_kernel_attention_backward(
    value: Array,
    spatial_shapes: SupportsDLPack,
    level_start_index: SupportsDLPack,
    sampling_locations: SupportsDLPack,
    attention_weights: Array,
    grad_output: Array,
    *,
    wanted: Optional[Iterable[str]] = None,
) -> tuple[Optional[Array], Optional[Array]]:
    """The gradients of geometric_kernel_attention, for users without automatic differentiation.

    Args:
        value, spatial_shapes, level_start_index, sampling_locations, attention_weights: as for the forward function.
        grad_output: [B, Q, M * D], as value, the gradient of what is minimised with respect to the output.
        wanted: names out of "value", "attention_weights". The work for the other is left out. None: both.

    Returns:
        The gradients with respect to value and attention_weights, each of its argument's shape and type; None in place of one
        that is not wanted.

    Raises:
        As the forward function; ValueError for an unknown name in `wanted`.
    """
    return OPERATOR.backward(
        value,
        spatial_shapes,
        level_start_index,
        sampling_locations,
        attention_weights,
        grad_output=grad_output,
        wanted=wanted,
    )
