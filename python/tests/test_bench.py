"""What can be told of bench/run_bench.py without measuring anything."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import run_bench  # noqa: E402


def test_a_package_that_was_not_built_is_left_out(tmp_path: Path) -> None:
    notices = run_bench.Notices()
    assert run_bench.python_calls(tmp_path, notices) == {}
    assert "Python package" in notices[0]
