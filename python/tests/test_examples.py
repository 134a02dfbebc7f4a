"""The programs that README.md and docs/python.md show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
#: What an example imports -> what that needs.
NEEDS = {"deformkit.onnx": ["onnx", "onnxscript", "onnxruntime"]}
NEEDS |= {name: [name] for name in ("torch", "transformers", "jax", "onnxruntime", "openvino")}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    environment = dict(os.environ)
    for module, needs in NEEDS.items():
        if re.search(rf"^(import|from) {re.escape(module)}\b", example.read_text(), re.M):
            for name in needs:
                pytest.importorskip(name)
            if module == "openvino":
                environment["XDG_CACHE_HOME"] = str(tmp_path)
                subprocess.run([sys.executable, "-m", "deformkit.build_openvino"], env=environment, check=True)
    done = subprocess.run([sys.executable, example], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
