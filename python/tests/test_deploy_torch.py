"""The operators as a C++ program sees them: libdeformkit_torch.so, without the Python package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.utils import cpp_extension  # noqa: E402

import deformkit.torch  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "python/examples/aotinductor"
LIBRARY = Path(deformkit.torch.library_path())
INCLUDES = [f"-I{folder}" for folder in (*cpp_extension.include_paths(), ROOT, ROOT / "compat/torch/include")]

needs_compiler = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
needs_new_torch = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 10), reason="PyTorch's stable interface has what is used since 2.10"
)


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_compiler
@needs_new_torch
def test_declarations_are_those_of_pytorch(tmp_path: Path) -> None:
    source = """
    #include <torch/csrc/stable/c/shim.h>
    #include <type_traits>
    #include "compat/torch/shim.h"
    using deformkit::torch::Shim;
    #define SHIM(result, name, arguments) static_assert(std::is_same_v<decltype(Shim::name), decltype(&::name)>);
    DEFORMKIT_TORCH_SHIMS(SHIM)
    static_assert(std::is_same_v<deformkit::torch::Value, StableIValue>);
    static_assert(deformkit::torch::kVersion == TORCH_VERSION_2_10_0);
    """
    (tmp_path / "declarations.cpp").write_text(source)
    run("c++", "-std=c++20", "-fsyntax-only", *INCLUDES, "declarations.cpp", cwd=tmp_path)


@needs_new_torch
def test_operators_without_the_package(tmp_path: Path) -> None:
    """The program loads the library alone, and later the package."""
    run(sys.executable, Path(__file__).parent / "torch_library_program.py", LIBRARY, cwd=tmp_path)


def test_schemas_do_not_change(tmp_path: Path) -> None:
    """Those of the package: the program above compares the library's with these."""
    for name in deformkit.torch.OPERATORS:
        assert str(getattr(torch.ops.deformkit, name).default._schema).startswith(f"deformkit::{name}(Tensor ")


def test_loading_the_library_after_the_package(tmp_path: Path) -> None:
    """Changes nothing, and says nothing."""
    code = f"import torch, deformkit; torch.ops.load_library({str(LIBRARY)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and "deformkit" not in done.stderr, done.stderr


def test_without_pytorch(tmp_path: Path) -> None:
    code = f"""
import ctypes
register = ctypes.CDLL({str(LIBRARY)!r}).deformkit_torch_register
register.restype = ctypes.c_char_p
print(register().decode())
"""
    assert "has not loaded PyTorch 2.10 or newer" in run(sys.executable, "-c", code, cwd=tmp_path)


@needs_compiler
@needs_new_torch
def test_program_without_python(tmp_path: Path) -> None:
    """A package of AOTInductor and a TorchScript module in a program that is linked in either order."""
    run(sys.executable, EXAMPLE / "export.py", cwd=tmp_path)
    run("c++", "-std=c++20", "-c", *INCLUDES, EXAMPLE / "main.cpp", cwd=tmp_path)
    folders = [LIBRARY.parent, *cpp_extension.library_paths()]
    paths = [option for folder in folders for option in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    pytorch = ["-ltorch", "-ltorch_cpu", "-lc10"]
    for libraries in ([LIBRARY, *pytorch], [*pytorch, LIBRARY]):
        run("c++", "-o", "program", "main.o", "-Wl,--no-as-needed", *paths, *libraries, cwd=tmp_path)
        differences = [float(line) for line in run(tmp_path / "program", cwd=tmp_path).split()]
        assert len(differences) == 2 and max(differences) < 1e-5
        needed = run("ldd", tmp_path / "program", cwd=tmp_path)
        assert "libtorch_cpu" in needed and "libpython" not in needed
