"""The wheel: what is in it, that it runs on its own, and on which Linux it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("scikit_build_core")
pytest.importorskip("nanobind")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `pip install .` does it, but for the library: that is the installed one of this build, so that no kernel is
    compiled a second time."""
    folder = tmp_path_factory.mktemp("wheel")
    library = Path(os.environ["DEFORMKIT_INSTALLED"])
    (config,) = library.rglob("deformkitConfig.cmake")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    command += [f"--config-settings=cmake.define.deformkit_DIR={config.parent}", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    (path,) = folder.glob("*.whl")
    return path


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {str(p.relative_to(ROOT / "python")) for p in (ROOT / "python/deformkit").rglob("*") if p.is_file()}
    package = {name for name in package if "__pycache__" not in name}
    assert "deformkit/py.typed" in package
    (native,) = [name for name in names if name.startswith("deformkit/_native.") and name.endswith(".so")]
    built = {"libdeformkit.so.0", "libdeformkit_onnxruntime.so", "libdeformkit_torch.so.0"}
    built |= {f"include/{name}" for name in ("deformkit/deformkit.h", "dlpack/dlpack.h", "openvino_operators.cpp")}
    assert {name for name in names if ".dist-info/" not in name} == package | {f"deformkit/{name}" for name in built} | {native}
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_version(wheel: Path) -> None:
    import deformkit

    assert wheel.name.split("-")[1] == deformkit.__version__


def test_runs_on_its_own(wheel: Path, tmp_path: Path) -> None:
    """Without this repository's build, and without a library that is not part of every Linux."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path),
        str(wheel),
    ]
    subprocess.run(command, check=True)
    code = """
import deformkit, numpy as np
value = np.arange(1, 7, dtype=np.float32).reshape(1, 6, 1, 1)
out = deformkit.multi_scale_deformable_attn(value, np.array([[2, 3]]), np.array([0]),
    np.full((1, 1, 1, 1, 1, 2), 0.5, np.float32), np.ones((1, 1, 1, 1, 1), np.float32))
print(deformkit.__file__, out.item())
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == [str(tmp_path / "deformkit/__init__.py"), "3.5"]
    system = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "libstdc++.so.6", "libgcc_s.so.1"}
    system.add("ld-linux-x86-64.so.2")
    own = "libdeformkit.so.0"
    exported = {"_native.": "PyInit__native", own: "deformkit_", "libdeformkit_onnxruntime.so": "RegisterCustomOps"}
    exported["libdeformkit_torch.so.0"] = "deformkit_torch_register"
    for path in (tmp_path / "deformkit").glob("*.so*"):
        sections = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        needed = {line.split("[")[1].rstrip("]") for line in sections.splitlines() if "(NEEDED)" in line}
        assert needed <= system | ({own} if path.name != own else set())
        (prefix,) = [symbol for name, symbol in exported.items() if path.name.startswith(name)]
        dump = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
        symbols = [line.split()[-1] for line in dump.splitlines()]
        assert symbols and all(symbol.startswith(prefix) for symbol in symbols if not symbol.startswith("_")), path.name


def test_manylinux(wheel: Path) -> None:
    """auditwheel finds nothing that the wheel would have to bring along."""
    pytest.importorskip("auditwheel")
    done = subprocess.run([sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    assert 'is consistent with the following platform tag: "manylinux_' in text, text
