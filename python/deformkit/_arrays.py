"""Arrays of any library that speaks DLPack, other than PyTorch: what a result is made of.

A result is made as a NumPy array, and handed to the library that `like` came from without a copy where that library can take it.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class SupportsDLPack(Protocol):
    """An array of NumPy, PyTorch, JAX, or any other library that follows the array API."""

    @property
    def shape(self) -> Any: ...

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


Array = TypeVar("Array", bound=SupportsDLPack)


def empty(shape: tuple[int, ...], like: Any) -> Any:
    """An array for a kernel to write to, of the type of `like`."""
    import numpy as np

    try:
        dtype = np.dtype(like.dtype)
    except (AttributeError, TypeError):
        dtype = np.from_dlpack(like).dtype
    return np.empty(shape, dtype)


def finish(array: Any, like: Any) -> Any:
    """`array`, which empty() made, as an array of the library of `like`."""
    import numpy as np

    if isinstance(like, np.ndarray) or not hasattr(like, "__array_namespace__"):
        return array
    namespace = like.__array_namespace__()
    try:
        return namespace.from_dlpack(array)
    except BufferError:  # bfloat16, which NumPy does not hand over
        return namespace.asarray(array)
