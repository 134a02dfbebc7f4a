import functools
from typing import Any

import torch


class autocast(torch.autocast):
    def __init__(self, enabled: bool = True, dtype: Any = torch.float16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled=enabled, cache_enabled=cache_enabled)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="cpu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="cpu")
