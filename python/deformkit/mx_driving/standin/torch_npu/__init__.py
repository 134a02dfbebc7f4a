"""Importing this makes "npu" another name for the CPU. A tensor that is moved there is a copy, as on a real NPU: scripts rely on
it when they compute a reference from the original."""

import sys
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from . import contrib, npu  # noqa: F401


def _on_cpu(argument: Any) -> Any:
    """A device that names an NPU, as the CPU; anything else as it is."""
    if isinstance(argument, torch.device):
        return torch.device("cpu") if argument.type == "npu" else argument
    if isinstance(argument, str) and argument.partition(":")[0] == "npu":
        return torch.device("cpu")
    return argument


class _NpuIsCpu(TorchFunctionMode):
    def __torch_function__(self, function: Any, kinds: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if function is torch.device:
            return function(*arguments, **named)  # "npu:0" is a device, as long as nothing is put there
        if function is torch.Tensor.to and any(_on_cpu(value) is not value for value in (*arguments, *named.values())):
            named = {**named, "copy": True}
        return function(*map(_on_cpu, arguments), **{key: _on_cpu(value) for key, value in named.items()})


def _tensor_npu(self: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
    return self.clone()


def _module_npu(self: torch.nn.Module, *arguments: Any, **named: Any) -> torch.nn.Module:
    return self


torch.utils.rename_privateuse1_backend("npu")  # makes torch.device("npu:0") a device
torch.npu = sys.modules["torch.npu"] = npu
torch.Tensor.npu, torch.nn.Module.npu = _tensor_npu, _module_npu
torch.Tensor.is_npu = property(lambda tensor: True)
_NpuIsCpu().__enter__()  # for as long as the process lives
