"""torch.npu: one device that is always ready, and has done its work when a call returns."""

import contextlib
import time
from typing import Any

import torch
from torch.cpu import amp  # noqa: F401


class Stream:
    def __init__(self, *arguments: Any, **named: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...


class Event:
    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None: ...

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this event to `end`."""
        return 1e3 * (end.time - self.time)


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def get_device_name(device: Any = None) -> str:
    return "CPU (deformkit)"


def set_device(device: Any) -> None: ...


def synchronize(device: Any = None) -> None: ...


def empty_cache() -> None: ...


def set_compile_mode(**options: Any) -> None: ...


def manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def _is_in_bad_fork() -> bool:  # asked by torch.manual_seed
    return False


def current_stream(device: Any = None) -> Stream:
    return Stream()


def stream(stream: Any) -> Any:
    return contextlib.nullcontext()
