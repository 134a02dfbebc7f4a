"""Times candidates against the best so far, each pair in a process of its own, forked from one that holds the inputs.

`Meter` is the searching side. Run as a program, this file is the other: it reads a request a line, forks, and the child loads
both libraries, and for each workload compares what they compute, then times them call by call in turn, prints the two times and
goes on when it is told to. A child that crashes or hangs takes nothing with it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import native  # noqa: E402
import numpy as np  # noqa: E402
from candidates import Rejected  # noqa: E402

LEAST_ROUNDS = 5
HOPELESS = 3.0  # times as long as the best: half of the time will do


@dataclass(frozen=True)
class Runnable:
    library: Path
    knobs: Mapping[str, int]  # host knobs, by <variant>.<knob>


@dataclass(frozen=True)
class Times:
    workload: str
    best: float
    candidate: float


class Meter:
    def __init__(self, build: Path, pass_name: str, type_: str, target: str, workloads: list[str], threads: int) -> None:
        command = [sys.executable, str(Path(__file__).resolve()), str(build), pass_name, type_, target, str(threads), *workloads]
        # Each copy of the library takes 1 KiB of what glibc sets aside for dlopen's static thread-local storage, 1.6 KiB.
        environment = {**os.environ, "DEFORMKIT_KNOBS": "", "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=65536"}
        for name in ("DEFORMKIT_TARGET", "DEFORMKIT_NUM_THREADS"):
            environment.pop(name, None)
        # A group of its own: Ctrl-C is for the tuner.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, preexec_fn=lambda: os.setpgid(0, 0)
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout.fileno()
        self._buffer = b""
        try:
            self._read(600)  # it has made the inputs
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    def _read(self, seconds: float) -> Optional[dict[str, Any]]:
        """A line; None if none has come after so many seconds."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if not select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return None
            part = os.read(self._from, 1 << 16)
            if not part:
                raise RuntimeError(f"the measuring process ended with status {self._process.wait()}")
            self._buffer += part
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _tell(self, message: object) -> None:
        self._to.write(json.dumps(message).encode() + b"\n")
        self._to.flush()

    def compare(self, best: Runnable, candidate: Runnable, seconds: float, patience: float = 20) -> Generator[Times, None, None]:
        """Times of one workload after the other, until all are done or the caller has seen enough. `patience`: seconds that
        a workload may take beyond what it is timed for. Raises Rejected."""
        self._tell(
            {
                "best": [str(best.library), dict(best.knobs)],
                "candidate": [str(candidate.library), dict(candidate.knobs)],
                "seconds": seconds,
            }
        )
        started = self._read(60)
        assert started is not None
        child, ended, hung = started["child"], False, False
        failure: Optional[str] = None
        at = "loading"
        try:
            while True:
                message = self._read(seconds + patience)
                if message is None:
                    hung = True
                    break
                if "status" in message:
                    ended = True
                    if failure is None and message["status"] != 0:
                        raise Rejected("crash", f"{at}: {_in_words(message['status'])}")
                    break
                if "wrong" in message:
                    failure = message["wrong"]
                elif "at" in message:
                    at = message["at"]
                else:
                    yield Times(**message)
                    self._tell("go")
        finally:
            if not ended:
                os.kill(child, signal.SIGKILL)
                while (message := self._read(60)) is not None and "status" not in message:
                    pass
        if hung:
            raise Rejected("hang", f"{at}: not done after {seconds + patience:.0f} s")
        if failure is not None:
            raise Rejected("wrong", failure)


def _in_words(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


# From here on: the other side.


class Side:
    """One of the two libraries, loaded from a copy: of one file there would be one library, with one set of knobs."""

    def __init__(self, runnable: tuple[str, Mapping[str, int]], target: str, threads: int, folder: str) -> None:
        library, knobs = runnable
        copy = Path(folder) / f"{len(os.listdir(folder))}.so"
        shutil.copyfile(library, copy)
        self.library = native.Deformkit(copy)
        for name, value in knobs.items():
            self.library.set_knob(name, value)
        self.library.set_target(target)
        self.library.set_num_threads(threads)


def _tolerances(problem: native.Problem, outputs: native.Outputs) -> dict[str, Any]:
    """By how much two results may differ, each of them off by what rounding accounts for."""
    from operators import DESCRIPTIONS  # after the fork: only where it is needed is PyTorch imported

    rounded = problem if problem.type.name == "f32" else problem.in_float32()
    tolerances = DESCRIPTIONS[problem.pass_.name].tolerances(rounded)
    epsilon = problem.type.epsilon if problem.type.bits < 32 else 0.0
    return {name: 2 * tolerances[name] + 2 * epsilon * np.abs(problem.type.decode(array)) for name, array in outputs.items()}


def _require_agreement(problem: native.Problem, best: Any, candidate: Any, kernels: list[str], name: Any) -> Optional[str]:
    expected = {name: np.array(array) for name, array in best().items()}
    problem.forget_outputs()
    outputs = candidate()
    if name() not in kernels:
        return f"{problem.workload.name}: {name()} ran"
    tolerances: Optional[dict[str, Any]] = None
    for output, array in outputs.items():
        if np.array_equal(array, expected[output]):
            continue
        tolerances = tolerances or _tolerances(problem, expected)
        decode = problem.type.decode
        with np.errstate(all="ignore"):
            difference = np.abs(decode(array).astype(np.float64) - decode(expected[output])) / tolerances[output]
        if not (worst := float(difference.max())) <= 1:
            return f"{problem.workload.name}: {output} is off by {worst:.3g} times what rounding accounts for"
    return None


def _time(best: Any, candidate: Any, seconds: float) -> tuple[float, float]:
    """The best call of each: noise only ever adds time. Whoever comes first finds the other's data in the caches."""
    calls = (best, candidate)
    shortest = [float("inf"), float("inf")]
    spent, rounds = 0.0, 0
    while rounds < LEAST_ROUNDS or spent < seconds:
        for side in (0, 1) if rounds % 2 == 0 else (1, 0):
            start = time.perf_counter()
            calls[side]()
            took = time.perf_counter() - start
            shortest[side] = min(shortest[side], took)
            spent += took
        rounds += 1
        if shortest[1] > HOPELESS * shortest[0] and rounds >= LEAST_ROUNDS and spent > seconds / 2:
            break
    return shortest[0], shortest[1]


def _child(problems: list[native.Problem], request: dict[str, Any], target: str, threads: int, commands: Any) -> None:
    def say(**message: object) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    say(child=os.getpid())
    with tempfile.TemporaryDirectory() as folder:
        sides = [Side(request[side], target, threads, folder) for side in ("best", "candidate")]
    gc.disable()
    for problem in problems:
        say(at=problem.workload.name)
        best, candidate = (side.library.call(problem) for side in sides)
        kernels = next(v.kernels for v in problem.pass_.variants if (v.type, v.target) == (problem.type.name, target))
        wrong = _require_agreement(problem, best, candidate, kernels, sides[1].library.last_variant)
        if wrong is not None:
            say(wrong=wrong)
            return
        times = _time(best, candidate, request["seconds"])
        say(workload=problem.workload.name, best=times[0], candidate=times[1])
        if not commands.readline():
            return


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("pass_name")
    parser.add_argument("type")
    parser.add_argument("target")
    parser.add_argument("threads", type=int)
    parser.add_argument("workloads", nargs="+")
    arguments = parser.parse_args()
    bench = native.BenchLibrary(arguments.build / "libdeformkit_bench.so")
    pass_ = next(p for p in bench.passes if p.name == arguments.pass_name)
    by_name = {w.name: w for w in pass_.workloads}
    problems = [native.Problem(bench, pass_, by_name[name], arguments.type) for name in arguments.workloads]
    commands = os.fdopen(os.dup(0), "rb", buffering=0)
    print("{}", flush=True)
    while line := commands.readline():
        request = json.loads(line)
        if not isinstance(request, dict):
            continue  # meant for a child that had ended
        # No thread but this one runs here: the library is called by children alone.
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _child(problems, request, arguments.target, arguments.threads, commands)
                status = 0
            except RuntimeError as error:
                print(json.dumps({"wrong": str(error)}), flush=True)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        print(json.dumps({"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}), flush=True)


if __name__ == "__main__":
    main()
