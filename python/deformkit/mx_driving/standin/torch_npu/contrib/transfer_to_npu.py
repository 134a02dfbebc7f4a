"""Importing this makes CUDA another name for the NPU, for scripts that were written for CUDA: .cuda(), "cuda:0", torch.cuda."""

import torch

import torch_npu

torch_npu.STAND_INS.add("cuda")
torch.Tensor.cuda = torch.Tensor.npu
torch.nn.Module.cuda = torch.nn.Module.npu
torch.UntypedStorage.cuda = torch.UntypedStorage.npu
for _name, _value in list(vars(torch_npu.npu).items()):
    if not _name.startswith("_") and hasattr(torch.cuda, _name) and _name != "amp":
        setattr(torch.cuda, _name, _value)
torch.cuda.get_device_capability = lambda device=None: (0, 0)
torch.cuda.is_current_stream_capturing = lambda: False  # asked by torch.compile
