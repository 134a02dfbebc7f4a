"""The programs that README.md and docs/python.md show."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path) -> None:
    for framework in ("torch", "transformers", "jax", "onnxruntime"):
        if re.search(rf"^(import|from) {framework}\b", example.read_text(), re.M):
            pytest.importorskip(framework)
    done = subprocess.run([sys.executable, example], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
