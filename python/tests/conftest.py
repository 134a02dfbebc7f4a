from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from problems import DTYPES, PROBLEMS  # noqa: E402


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every operator, and every storage type."""
    if "problem" in metafunc.fixturenames:
        metafunc.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
    if "dtype" in metafunc.fixturenames:
        metafunc.parametrize("dtype", DTYPES)


@pytest.fixture(autouse=True)
def own_settings() -> Iterator[None]:
    """What a test changes for the process does not outlive it."""
    import deformkit

    count = deformkit.get_num_threads()
    yield
    deformkit.set_num_threads(count)
    deformkit.set_target(None)
