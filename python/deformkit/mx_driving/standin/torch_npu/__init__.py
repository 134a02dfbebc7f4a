"""Importing this makes "npu" another name for the CPU, in all threads. A tensor that is moved there is a copy, as on a real NPU:
scripts rely on it when they compute a reference from the original.

What has nothing to stand for it raises, and says its name: operators (npu_...) when they are called, other names when they are
asked for.
"""

import functools
import sys
import threading
import warnings
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__version__ = torch.__version__.split("+")[0] + "+deformkit"
#: Kinds of devices that are the CPU. transfer_to_npu adds "cuda".
STAND_INS = {"npu"}


def on_cpu(argument: Any) -> Any:
    """A device that names an NPU, as the CPU; anything else as it is."""
    if isinstance(argument, torch.device):
        return torch.device("cpu") if argument.type in STAND_INS else argument
    if isinstance(argument, str) and argument.partition(":")[0] in STAND_INS:
        return torch.device("cpu")
    return argument


def _moves(arguments: Any) -> bool:
    return any(on_cpu(argument) is not argument for argument in arguments)


def _mark(result: Any) -> Any:
    """Tensors on the "NPU" know it."""
    if isinstance(result, torch.Tensor):
        result._is_npu = True
    elif isinstance(result, (tuple, list)):
        for part in result:
            _mark(part)
    return result


def _is_marked(tensor: Any) -> bool:
    return isinstance(tensor, torch.Tensor) and "_is_npu" in tensor.__dict__


class _NpuIsCpu(TorchFunctionMode):
    def __torch_function__(self, function: Any, kinds: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function is torch.device:
            return function(*arguments, **named)  # "npu:0" is a device, as long as nothing is put there
        if function in (torch.Tensor.pin_memory, torch.Tensor.is_pinned):
            return arguments[0] if function is torch.Tensor.pin_memory else False
        mapped = [on_cpu(argument) for argument in arguments]
        mapped_named = {key: on_cpu(argument) for key, argument in named.items()}
        if torch.compiler.is_compiling():
            return function(*mapped, **mapped_named)
        marked = _is_marked(arguments[0]) if arguments else False
        moves = _moves((*arguments, *named.values()))
        leaves = marked and (function is torch.Tensor.cpu or (function is torch.Tensor.to and _names_cpu(arguments, named)))
        if function is torch.Tensor.to and moves:
            mapped_named["copy"] = True
        result = function(*mapped, **mapped_named)
        if leaves:
            return result.clone() if result is arguments[0] else result
        if moves or any(map(_is_marked, arguments)):
            _mark(result)
        return result


def _names_cpu(arguments: Any, named: Any) -> bool:
    return any(isinstance(device, (str, torch.device)) and str(device) == "cpu" for device in (*arguments, named.get("device")))


def _wrap(owner: Any, name: str, change: Any) -> None:
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(functools.partial(change, original)))


def _with_devices(original: Any, *arguments: Any, **named: Any) -> Any:
    return original(*map(on_cpu, arguments), **{key: on_cpu(argument) for key, argument in named.items()})


def _load(original: Any, f: Any, map_location: Any = None, *arguments: Any, **named: Any) -> Any:
    if isinstance(map_location, dict):
        map_location = {key: str(on_cpu(value)) for key, value in map_location.items()}
    return original(f, on_cpu(map_location), *arguments, **named)


_autocast_init, _thread_start, _module_to = torch.autocast.__init__, threading.Thread.start, torch.nn.Module.to


@functools.wraps(_autocast_init)
def _init_autocast(self: Any, device_type: str, dtype: Any = None, *arguments: Any, **named: Any) -> None:
    if on_cpu(device_type) is not device_type:
        device_type, dtype = "cpu", dtype or torch.float16  # what an NPU takes where nothing is said
    _autocast_init(self, device_type, dtype, *arguments, **named)


@functools.wraps(_thread_start)
def _start_thread(self: threading.Thread) -> None:
    run = self.run

    def run_with_npu() -> None:
        with _NpuIsCpu():
            run()

    self.run = run_with_npu
    _thread_start(self)


def _tensor_npu(self: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    if torch.compiler.is_compiling():
        return self.clone()
    return _mark(self.clone())


def _module_npu(self: torch.nn.Module, *arguments: Any, **named: Any) -> torch.nn.Module:
    for tensor in (*self.parameters(), *self.buffers()):
        _mark(tensor)
    return self


@functools.wraps(_module_to)
def _module_to_device(self: torch.nn.Module, *arguments: Any, **named: Any) -> torch.nn.Module:
    moved = _module_to(self, *map(on_cpu, arguments), **{key: on_cpu(argument) for key, argument in named.items()})
    return _module_npu(moved) if _moves((*arguments, *named.values())) else moved


class _AnyGenerator(type(torch._C.Generator)):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_AnyGenerator):
    def __new__(cls, device: Any = "cpu") -> Any:
        return torch._C.Generator(on_cpu(device))


def _absent(name: str) -> Any:
    def refuse(*arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(f"torch_npu.{name}: not in deformkit's stand-in for torch_npu")

    return refuse


def __getattr__(name: str) -> Any:
    if name.startswith("npu_"):
        return _absent(name)
    raise AttributeError(f"torch_npu.{name}: not in deformkit's stand-in for torch_npu")


torch.utils.rename_privateuse1_backend("npu")  # makes torch.device("npu:0") a device
# PyTorch takes that to be an accelerator, and would look for its streams and its memory.
torch.accelerator.is_available = lambda: False
warnings.filterwarnings("ignore", "'pin_memory' argument is set as true but no accelerator is found")
torch.accelerator.current_accelerator = lambda check_available=False: None

from . import contrib, npu, optim, testing  # noqa: E402, F401

torch.npu = npu
for _name in ("npu", "npu.amp", "npu.amp.autocast_mode", "npu.amp.grad_scaler"):
    sys.modules[f"torch.{_name}"] = sys.modules[f"torch_npu.{_name}"]
torch.Tensor.npu, torch.nn.Module.npu, torch.nn.Module.to = _tensor_npu, _module_npu, _module_to_device
torch.UntypedStorage.npu = lambda self, *arguments, **named: self.clone()
torch.Tensor.is_npu = property(_is_marked)
torch.Generator = _Generator
torch.autocast.__init__ = _init_autocast
threading.Thread.start = _start_thread
_wrap(torch, "load", _load)
_wrap(torch, "set_default_device", _with_devices)
_NpuIsCpu().__enter__()  # for as long as the process lives
