"""The names of the mx_driving package that deformkit has operators for, on the CPU.

`python -m deformkit.mx_driving script.py` runs a script that imports mx_driving and torch_npu, unchanged.
"""

from __future__ import annotations

from .ops import *  # noqa: F403
