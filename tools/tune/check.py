"""A candidate runs the tests of its variants against the reference before it is timed: with it in the library's place."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from candidates import Rejected
from measure import Runnable
from space import Build, Subject, write_atomically

CHECK_SECONDS = 120


def knob_file(folder: Path, runnable: Runnable) -> Path:
    """As deformkit.h describes it."""
    lines = [f"{name}={value}" for name, value in runnable.knobs.items()]
    path = folder / f"check-{os.getpid()}.params"
    write_atomically(path, "\n".join([*lines, f"end={len(lines)}"]) + "\n")
    return path


def require_right(build: Build, subject: Subject, runnable: Runnable, folder: Path, thorough: bool) -> None:
    """Shapes alone are tested in a second; `thorough`: all that the suite has for the row, but for what says which kernel has to
    run: a knob decides. Raises Rejected."""
    program = build.folder / "tests" / f"{subject.operator}_test"
    file = knob_file(folder, runnable)
    environment = {**os.environ, "LD_PRELOAD": str(runnable.library), "DEFORMKIT_KNOBS": str(file)}
    process = subprocess.Popen(
        [str(program), f"--gtest_filter=*{'' if thorough else 'Shapes'}.{subject.row}/*-*/kernels", "--gtest_brief=1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        preexec_fn=lambda: os.setpgid(0, 0),
    )
    try:
        output, _ = process.communicate(timeout=CHECK_SECONDS)
    except subprocess.TimeoutExpired:
        raise Rejected("hang", f"its tests were not done after {CHECK_SECONDS} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        file.unlink(missing_ok=True)
    if process.returncode < 0:
        raise Rejected("crash", f"its tests were killed by {signal.Signals(-process.returncode).name}: {_first_failure(output)}")
    if process.returncode not in (0, 77):  # 77: some were skipped
        raise Rejected("wrong", _first_failure(output))


def _first_failure(output: str) -> str:
    lines = output.splitlines()
    at = next((i for i, line in enumerate(lines) if "Failure" in line or "FAILED" in line), 0)
    return " ".join(line.strip() for line in lines[at : at + 4])[:400]
