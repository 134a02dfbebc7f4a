"""The C interface. Arrays are anything that speaks DLPack, or None for NULL; `threads` is a count, 0 for one per core, or -1 for
the number that set_num_threads was given. Statuses become ValueError, TypeError, MemoryError and RuntimeError, with the library's
message. The GIL is released while the library works."""

from typing import Any, Optional

def msda_forward(
    threads: int,
    value: Any,
    spatial_shapes: Any,
    level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    output: Any,
    /,
) -> None: ...
def msda_backward(
    threads: int,
    value: Any,
    spatial_shapes: Any,
    level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    grad_output: Any,
    grad_value: Any,
    grad_sampling_locations: Any,
    grad_attention_weights: Any,
    /,
) -> None: ...
def deformable_aggregation_forward(
    threads: int,
    feature_maps: Any,
    spatial_shape: Any,
    scale_start_index: Any,
    sample_locations: Any,
    weights: Any,
    output: Any,
    /,
) -> None: ...
def deformable_aggregation_backward(
    threads: int,
    feature_maps: Any,
    spatial_shape: Any,
    scale_start_index: Any,
    sample_locations: Any,
    weights: Any,
    grad_output: Any,
    grad_feature_maps: Any,
    grad_sample_locations: Any,
    grad_weights: Any,
    /,
) -> None: ...
def geometric_kernel_attention_forward(
    threads: int,
    value: Any,
    spatial_shapes: Any,
    level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    output: Any,
    /,
) -> None: ...
def geometric_kernel_attention_backward(
    threads: int,
    value: Any,
    spatial_shapes: Any,
    level_start_index: Any,
    sampling_locations: Any,
    attention_weights: Any,
    grad_output: Any,
    grad_value: Any,
    grad_attention_weights: Any,
    /,
) -> None: ...
def prefer_huge_pages(data: int, bytes: int, /) -> None: ...
def set_num_threads(count: int, /) -> None: ...
def get_num_threads() -> int: ...
def set_target(target: Optional[str]) -> None: ...
def release_memory() -> None: ...
def set_stream(device_type: int, device_id: int, stream: int, /) -> None: ...
def set_deterministic(deterministic: bool, /) -> None: ...
def warm_up(device_type: int, device_id: int, /) -> None: ...
def last_device() -> str: ...
def last_variant() -> str: ...
def knobs() -> list[tuple[str, int, int, int, int, str]]:
    """Name, value, standard value, lowest and highest value, and meaning of each."""

def set_knob(name: str, value: int, /) -> None: ...
def knobs_file() -> str: ...
def version() -> str: ...
def xla_handlers() -> dict[str, Any]:
    """For jax.ffi.register_ffi_target: each of the functions above by its name, and "refuse", for devices without kernels."""

def storage_types() -> dict[str, int]:
    """The types that value can have, by NumPy's and PyTorch's names, with the bits of their mantissas."""
