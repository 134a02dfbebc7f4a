"""Deformable sampling operators for detection transformers and camera (BEV) perception, fast on CPUs.

Functions take arrays of NumPy, PyTorch, JAX or any library that speaks DLPack, and return what they were given. PyTorch is not
needed, nor imported, until a tensor comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _after_torch, _native
from ._da import deformable_aggregation, deformable_aggregation_backward
from ._gka import geometric_kernel_attention, geometric_kernel_attention_backward
from ._msda import multi_scale_deformable_attn, multi_scale_deformable_attn_backward

if TYPE_CHECKING:
    from .adapters.accelerate import Acceleration

__version__: str = _native.version()

__all__ = [
    "accelerate",
    "deformable_aggregation",
    "deformable_aggregation_backward",
    "geometric_kernel_attention",
    "geometric_kernel_attention_backward",
    "get_num_threads",
    "last_device",
    "last_variant",
    "multi_scale_deformable_attn",
    "multi_scale_deformable_attn_backward",
    "openvino_extension",
    "release_memory",
    "set_num_threads",
    "set_target",
    "warm_up",
]


def accelerate(model: Any) -> Acceleration:
    """Makes a PyTorch model compute its multi-scale deformable attention with this library; see adapters.accelerate."""
    from .adapters.accelerate import accelerate

    return accelerate(model)


def openvino_extension() -> str:
    """What OpenVINO takes: core.add_extension(deformkit.openvino_extension()). FileNotFoundError if it was not built for this
    release of OpenVINO yet: python -m deformkit.build_openvino."""
    from .build_openvino import extension

    path = extension()
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there yet: python -m deformkit.build_openvino")
    return str(path)


def set_num_threads(count: int) -> None:
    """Threads that a call may use, for the whole process; 0: one per core. Calls with PyTorch's tensors use as many threads as
    torch.get_num_threads() says instead. ValueError if count is negative or more than 256."""
    _native.set_num_threads(count)


def get_num_threads() -> int:
    """What set_num_threads or the environment variable DEFORMKIT_NUM_THREADS set; 0: one per core."""
    return _native.get_num_threads()


def release_memory() -> None:
    """Gives back to the system the memory that is kept between calls, at most 256 MiB, as far as no running call uses it."""
    _native.release_memory()


def last_variant() -> str:
    """The kernel that this thread's last successful call ran, such as "msda_forward_f32_avx512"; "" if none was needed."""
    return _native.last_variant()


def last_device() -> str:
    """The GPU on which this thread's last call ran, as its driver calls it; "" if that was the CPU."""
    return _native.last_device()


def warm_up(device: int = 0) -> None:
    """Loads all kernels for a CUDA device, which first calls would otherwise do, and which a graph's capture does not allow.
    RuntimeError if no such device answers."""
    _native.warm_up(2, device)


def set_target(target: Optional[str]) -> None:
    """Forces kernels for one target, such as "avx2"; None: the best that this machine runs. ValueError if there is no such
    target. Meant for tests and benchmarks."""
    _native.set_target(target)


_after_torch.register()
