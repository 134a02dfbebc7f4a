"""Where things are, for the tests of the tuner."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["DEFORMKIT_BUILD"])
sys.path += [str(ROOT / "tools/tune"), str(ROOT / "bench")]


def require_tuner() -> None:
    """Skips a module where what it needs is not there."""
    pytest.importorskip("optuna", reason="Optuna is not installed: ./run tune does it")
    if not (BUILD / "libdeformkit_bench.so").exists():
        pytest.skip("the benchmarks' library is not built: ./run tune does it", allow_module_level=True)
