"""The fused optimizers, as PyTorch's own."""

from typing import Any

import torch


class _Fused:
    def clip_grad_norm_fused_(self: Any, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)


class NpuFusedAdam(_Fused, torch.optim.Adam): ...


class NpuFusedAdamW(_Fused, torch.optim.AdamW): ...


class NpuFusedSGD(_Fused, torch.optim.SGD): ...


def __getattr__(name: str) -> Any:
    raise AttributeError(f"torch_npu.optim.{name}: not in deformkit's stand-in for torch_npu")
