from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import places
import pytest
import space
from candidates import Workshop
from measure import Runnable


@pytest.fixture
def build() -> space.Build:
    return space.read_build(places.BUILD)


@pytest.fixture
def subject(build: space.Build) -> space.Subject:
    import native

    passes = native.BenchLibrary(places.BUILD / "libdeformkit_bench.so").passes
    (found,) = space.subjects(build, passes, "^gka_forward_f32_sse41$")
    return found


@pytest.fixture
def host_subject(subject: space.Subject) -> space.Subject:
    """With host knobs alone: nothing has to be compiled."""
    (variant,) = subject.variants
    only = dataclasses.replace(variant, knobs=tuple(k for k in variant.knobs if k.kind == "host"))
    return dataclasses.replace(subject, variants=(only,))


@pytest.fixture(scope="session")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("objects")


@pytest.fixture
def workshop(build: space.Build, objects: Path) -> Workshop:
    return Workshop(build, objects)


@pytest.fixture(scope="session")
def impostors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Runnable]:
    build = space.read_build(places.BUILD)
    folder = tmp_path_factory.mktemp("impostors")
    made = {}
    for kind in ("Wrong", "Crash", "Hang"):
        path = folder / f"{kind}.so"
        command = [build.compiler, "-std=c++17", "-shared", "-fPIC", f"-DIMPOSTOR=k{kind}", f"-I{places.ROOT}/runtime/include"]
        command += [str(Path(__file__).parent / "impostor.cpp"), "-o", str(path), "-Wl,--no-as-needed"]
        command += [str(places.BUILD / "libdeformkit.so"), f"-Wl,-rpath,{places.BUILD}"]
        subprocess.run(command, check=True)
        made[kind.lower()] = Runnable(path, {})
    return made
