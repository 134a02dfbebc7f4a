"""torch.npu: one device that is always ready, and has done its work when a call returns."""

import contextlib
import os
import resource
import time
import types
from typing import Any

import torch

#: What scripts turn on and off: it is kept, and has no effect.
config = types.SimpleNamespace(allow_internal_format=False)
conv = types.SimpleNamespace(allow_hf32=False)
matmul = types.SimpleNamespace(allow_hf32=False)
aclnn = types.SimpleNamespace(allow_hf32=False)
default_generators = (torch.default_generator,)
FloatTensor, HalfTensor, DoubleTensor = torch.FloatTensor, torch.HalfTensor, torch.DoubleTensor
IntTensor, LongTensor, BoolTensor = torch.IntTensor, torch.LongTensor, torch.BoolTensor


class Stream:
    def __init__(self, *arguments: Any, **named: Any) -> None: ...

    def synchronize(self) -> None: ...

    def wait_stream(self, stream: Any) -> None: ...

    def wait_event(self, event: Any) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> "Event":
        event = event or Event()
        event.record(self)
        return event


class Event:
    def __init__(self, *arguments: Any, **named: Any) -> None:
        self.time = 0.0

    def record(self, stream: Any = None) -> None:
        self.time = time.perf_counter()

    def synchronize(self) -> None: ...

    def wait(self, stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: "Event") -> float:
        """Milliseconds from this event to `end`."""
        return 1e3 * (end.time - self.time)


class device(contextlib.nullcontext):
    def __init__(self, device: Any = None) -> None:
        super().__init__()


device_of = device


def is_available() -> bool:
    return True


is_bf16_supported = is_initialized = is_available


def init() -> None: ...


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def get_device_name(device: Any = None) -> str:
    return "Ascend910B, stood in for by deformkit on the CPU"  # tests compare the first ten characters


def _memory(name: str) -> int:
    """Bytes of the process or the machine, from /proc."""
    files = {"VmRSS": "/proc/self/status", "MemTotal": "/proc/meminfo", "MemAvailable": "/proc/meminfo"}
    with open(files[name]) as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name + ":"))


def get_device_properties(device: Any = None) -> Any:
    return types.SimpleNamespace(
        name=get_device_name(), total_memory=_memory("MemTotal"), multi_processor_count=os.cpu_count(), major=0, minor=0
    )


def get_device_capability(device: Any = None) -> Any:
    return None


def memory_allocated(device: Any = None) -> int:
    """Of the process: a CPU's memory is not counted by tensors."""
    return _memory("VmRSS")


def max_memory_allocated(device: Any = None) -> int:
    """The most that the process has had, from its start on."""
    return max(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10, memory_allocated())


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated


def mem_get_info(device: Any = None) -> tuple[int, int]:
    return _memory("MemAvailable"), _memory("MemTotal")


def reset_peak_memory_stats(device: Any = None) -> None: ...


reset_max_memory_allocated = reset_peak_memory_stats


def set_device(device: Any) -> None: ...


def synchronize(device: Any = None) -> None: ...


def empty_cache() -> None: ...


def set_compile_mode(**options: Any) -> None: ...


def set_option(options: Any) -> None: ...


def manual_seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)


manual_seed_all = manual_seed


def get_rng_state(device: Any = None) -> torch.Tensor:
    return torch.get_rng_state()


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    torch.set_rng_state(state)


def initial_seed() -> int:
    return torch.initial_seed()


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]


def _is_in_bad_fork() -> bool:  # asked by torch.manual_seed
    return False


def current_stream(device: Any = None) -> Stream:
    return Stream()


default_stream = current_stream


def stream(stream: Any) -> Any:
    return contextlib.nullcontext()


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torch.npu.{name}: not in deformkit's stand-in for torch_npu")


from . import amp  # noqa: E402, F401
