"""python -m deformkit.build_openvino: compiles the operators for the OpenVINO that is installed, with a C++ compiler (CXX, c++).

OpenVINO's C++ interface is that of one release: no wheel could have an extension for all. The result goes to the user's cache.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from . import __version__

PACKAGE = Path(__file__).parent


def _openvino() -> Path:
    spec = importlib.util.find_spec("openvino")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("openvino is not installed: pip install openvino")
    return Path(spec.submodule_search_locations[0])


def _library(name: str) -> Path:
    (path,) = [p for p in (_openvino() / "libs").iterdir() if re.fullmatch(rf"lib{name}\.so\.\d+", p.name)]
    return path


def extension() -> Path:
    """Where the extension for this OpenVINO lies, or would."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deformkit"
    release = _library("openvino").name.rpartition(".")[2]
    return cache / f"{__version__}-openvino-{release}" / "libdeformkit_openvino.so"


def build() -> Path:
    path = extension()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".{os.getpid()}")
    command = [os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-o", str(part)]
    command += [
        "-isystem",
        str(_openvino() / "include"),
        f"-I{PACKAGE / 'include'}",
        str(PACKAGE / "include/openvino_operators.cpp"),
    ]
    command += [str(PACKAGE / "libdeformkit.so.0"), str(_library("openvino")), str(_library("tbb")), f"-Wl,-rpath,{PACKAGE}"]
    try:
        subprocess.run(command, check=True)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path


if __name__ == "__main__":
    try:
        print(build())
    except (ModuleNotFoundError, OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"deformkit.build_openvino: {error}")
