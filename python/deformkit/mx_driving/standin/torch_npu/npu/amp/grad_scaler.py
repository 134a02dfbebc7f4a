from typing import Any

import torch


class GradScaler(torch.amp.GradScaler):
    """`dynamic`, an argument of the original alone: without it the scale stays as it is."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        dynamic: bool = True,
        enabled: bool = True,
        **ignored: Any,
    ) -> None:
        factors = (growth_factor, backoff_factor) if dynamic else (1.0 + 1e-9, 1.0 - 1e-9)
        super().__init__("cpu", init_scale, *factors, growth_interval, enabled)
