from typing import Any

import torch


def create_common_tensor(item: Any, minimum: float, maximum: float, device: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """item: type, format, shape. The same tensor on the CPU and on the NPU."""
    dtype, _, shape = item
    kind = getattr(torch, dtype.__name__) if isinstance(dtype, type) else dtype  # NumPy's or PyTorch's
    tensor = torch.empty(shape).uniform_(minimum, maximum).to(kind)
    return tensor, tensor.npu()
