"""Importing this makes .cuda() mean .npu(), for scripts that were written for CUDA."""

import torch

torch.Tensor.cuda = torch.Tensor.npu
torch.nn.Module.cuda = torch.nn.Module.npu
