"""python -m deformkit.tune: host knobs without a compiler."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deformkit import _native, tune
from deformkit._tuning import steps


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deformkit.tune", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def a_knob() -> str:
    return next(name for name, *_ in _native.knobs() if name.endswith(".task_samples"))


def test_knobs_are_listed() -> None:
    listed = run("--list", "msda_forward_f32_.*task_samples", DEFORMKIT_KNOBS="").stdout.splitlines()
    expected = [row for row in _native.knobs() if row[0].startswith("msda_forward_f32_") and row[0].endswith(".task_samples")]
    assert len(listed) == len(expected) > 0
    for line, (name, _, standard, lowest, highest, meaning) in zip(listed, expected):
        assert line == f"{name}={standard}  # {lowest} to {highest}, default {standard}: {meaning}"


def test_what_is_written_is_what_the_library_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, name = tmp_path / "deeper/x.params", a_knob()
    tune.write_settings(path, {name: 96}, ["found somewhere"])
    assert tune.read_settings(path) == {name: 96}
    listed = run("--list", f"^{name}$", DEFORMKIT_KNOBS=str(path))
    assert listed.stdout.startswith(f"{name}=96  #") and listed.stderr == ""

    text = path.read_text()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tune.write_settings(path, {name: 97}, [])
    assert path.read_text() == text and list(path.parent.iterdir()) == [path]

    for damaged in (text[: len(text) // 2], text.replace("end=1", "end=2"), text.replace("=96", "="), "", text + "more=1\n"):
        path.write_text(damaged)
        assert tune.read_settings(path) == {}
        refused = run("--list", f"^{name}$", DEFORMKIT_KNOBS=str(path))
        assert str(path) in refused.stderr and refused.returncode == 0
        assert not refused.stdout.startswith(f"{name}=96")


def test_the_search_climbs_to_what_is_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two knobs that matter, far from where they start, and one that does not."""
    best = {"a": 768, "b": 2}

    def cost(values: tune.Values) -> float:
        return 1.0 + sum(0.05 * abs(math.log2(values[name] / at)) for name, at in best.items())

    def compare(_: object, one: tune.Values, other: tune.Values, __: float) -> dict[str, tuple[float, float]]:
        return {"w": (cost(one), cost(other))}

    monkeypatch.setattr(tune, "compare", compare)
    ranges = {"a": steps(1, 1 << 20, 16), "b": steps(1, 64, 48), "c": steps(0, 7, 3)}
    assert tune.search([], {"a": 16, "b": 48, "c": 3}, ranges, 0, lambda text: None) == {**best, "c": 3}


def test_what_changes_results_is_not_kept() -> None:
    name = a_knob()
    before: dict[str, int] = {row[0]: row[1] for row in _native.knobs()}

    def call() -> Any:
        import numpy as np

        return np.array([1.0, float(dict((row[0], row[1]) for row in _native.knobs())[name])])

    workload = tune.Workload("w", "k", call)
    try:
        assert tune.same_results([workload], {name: 96}, {name: 96})
        assert not tune.same_results([workload], {name: 96}, {name: 192})
    finally:
        _native.set_knob(name, before[name])


def test_a_kernel_is_tuned(tmp_path: Path) -> None:
    path = tmp_path / "own.params"
    other = next(name for name, *_ in _native.knobs() if name.startswith("library."))
    tune.write_settings(path, {other: 2048}, ["an earlier one"])
    done = run("^da_forward_f32", "--file", str(path), "--seconds", "0.001", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "da_forward_f32_" in done.stdout
    kept = tune.read_settings(path)
    assert kept.pop(other) == 2048, "what was found before stays"
    assert all(name.startswith("da_forward_f32_") for name in kept)
    assert ("kept in" in done.stdout) == bool(kept)
    refused = run("nothing_like_this", "--file", str(path))
    assert refused.returncode == 2 and "nothing_like_this" in refused.stderr
