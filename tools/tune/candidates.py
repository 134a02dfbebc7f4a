"""Candidates as libraries: a kernel's object per set of schedule knobs, linked with the runtime's objects of the build.

Each step leaves its result under the hash of what went into it, so nothing is made twice, in this search or a later one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Optional

from space import Build, Subject, Variant

GENERATOR_SECONDS = 120  # of the processor: the slowest takes 20; on a busy machine it waits
AUTOSCHEDULER_SECONDS = 900  # Adams2019 takes 100 for msda_forward
WAITING = 8
GENERATOR_BYTES = 12 << 30


class Rejected(Exception):
    """Why a candidate is out of the running."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind  # "compile", "wrong", "crash", "hang" or "slow"


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps([str(p) for p in parts]).encode()).hexdigest()[:20]


def _last_lines(text: str) -> str:
    return "\n".join(text.strip().splitlines()[-6:])


class Workshop:
    """Makes libraries, for several threads at a time. While `quiet()`, it stands still."""

    def __init__(self, build: Build, folder: Path) -> None:
        self.build = build
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._silent = False
        self._identity: dict[Path, str] = {}

    @contextlib.contextmanager
    def quiet(self) -> Iterator[None]:
        self._signal(signal.SIGSTOP, silent=True)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT, silent=False)

    def stop(self) -> None:
        """Ends what is being made; it is rejected."""
        self._signal(signal.SIGKILL, silent=False)

    def _signal(self, number: signal.Signals, silent: bool) -> None:
        with self._lock:
            self._silent = silent
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)

    def _run(self, command: list[str], what: str, seconds: int) -> None:
        """In a group of its own: Ctrl-C is for the tuner, which ends it."""

        def limit() -> None:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (GENERATOR_BYTES, GENERATOR_BYTES))
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
            os.nice(5)

        with self._lock:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limit)
            self._processes.add(process)
            if self._silent:
                os.killpg(process.pid, signal.SIGSTOP)
        try:
            output, _ = process.communicate(timeout=WAITING * seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Rejected("compile", f"{what}: took more than {WAITING * seconds} s") from None
        finally:
            with self._lock:
                self._processes.remove(process)
        if process.returncode != 0:
            raise Rejected("compile", f"{what}: status {process.returncode}: {_last_lines(output)}")

    def _of(self, path: Path) -> str:
        """A file's content: once a session."""
        if path not in self._identity:
            self._identity[path] = hashlib.sha256(path.read_bytes()).hexdigest()[:20]
        return self._identity[path]

    @contextlib.contextmanager
    def _making(self, path: Path) -> Iterator[Path]:
        """A folder to make `path` in, which appears when it is whole."""
        work = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            yield work
            os.replace(work / path.name, path)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def kernel(self, variant: Variant, params: Mapping[str, int], autoscheduler: Optional[str] = None) -> Path:
        if autoscheduler is None and " ".join(f"{name}={value}" for name, value in params.items()) == variant.built_with:
            return self.build.folder / f"{variant.name}.o"
        generator = self.build.generators[variant.operator]
        told = {
            "target": f"{variant.halide_target}-no_runtime",
            "storage_type": variant.storage_type,
            "lanes": variant.lanes,
            **params,
        }
        plugin: list[str] = []
        if autoscheduler is not None:
            told["autoscheduler"] = autoscheduler
            told["autoscheduler.parallelism"] = os.cpu_count() or 1
            plugin = ["-p", str(self.build.autoschedulers[autoscheduler])]
        path = self.folder / f"{variant.name}-{_hash(self._of(generator), sorted(told.items()))}.o"
        if not path.exists():
            with self._making(path) as work:
                command = [str(generator), "-n", path.stem, "-d", "0", "-g", f"{variant.operator}_{variant.pass_}", "-f"]
                command += [variant.name, "-e", "object", "-o", str(work), *plugin, *(f"{k}={v}" for k, v in told.items())]
                seconds = GENERATOR_SECONDS if autoscheduler is None else AUTOSCHEDULER_SECONDS
                self._run(command, f"{variant.name} {' '.join(f'{k}={v}' for k, v in params.items())}", seconds)
                made = work / f"{path.stem}.o"
                if not made.exists():
                    raise Rejected("compile", f"{variant.name}: its generator wrote no object")
        return path

    def _table(self, subject: Subject) -> Path:
        """The dispatch table of one type and target, compiled as that of the build."""
        rows = "".join(
            f"DEFORMKIT_VARIANT({v.operator}, {v.pass_}, {v.type}, {v.target}, {v.serves}"
            + "".join(f", {k.standard}" for k in v.knobs if k.kind == "host")
            + ")\n"
            for v in subject.kernels
        )
        header = self.build.folder / "generated/deformkit_variants/deformkit_variants.h"
        wanted = {v.name for v in self.build.variants.values()} - {v.name for v in subject.kernels}
        head = "".join(
            line for line in header.read_text().splitlines(True) if line.split('"')[1:2] not in [[f"{name}.h"] for name in wanted]
        )
        entry = next(
            e
            for e in json.loads((self.build.folder / "compile_commands.json").read_text())
            if e["output"].endswith("deformkit_objects.dir/dispatch/table.cpp.o")
        )
        own = next(o for o in self.build.objects if o.name == "table.cpp.o")
        path = self.folder / f"table-{subject.type}-{subject.target}-{_hash(rows, head, entry['command'], self._of(own))}.o"
        if not path.exists():
            with self._making(path) as work:
                (work / "deformkit_variants.inc").write_text(rows)
                (work / "deformkit_variants.h").write_text(head)
                command = shlex.split(entry["command"])
                command[command.index("-o") + 1] = str(work / path.name)
                self._run([command[0], f"-I{work}", *command[1:]], "the dispatch table", GENERATOR_SECONDS)
        return path

    def library(self, subject: Subject, values: Mapping[str, int], autoscheduler: Optional[str] = None) -> Path:
        """Of all kernels of the subject's type and target. Host knobs are set when it is loaded."""
        varied = {v.name for v in subject.variants}
        kernels = [
            self.kernel(v, v.params(values), autoscheduler if v.pass_ == v.serves else None)
            if v.name in varied
            else self.build.folder / f"{v.name}.o"
            for v in subject.kernels
        ]
        runtime = [o for o in self.build.objects if o.name != "table.cpp.o"]
        parts = [self._table(subject), *kernels, *runtime, self.build.halide_runtime]
        path = self.folder / f"lib{subject.name}-{_hash(*(self._of(p) for p in parts))}.so"
        if not path.exists():
            with self._making(path) as work:
                exports = self.build.source / "runtime/exports.map"
                command = [self.build.compiler, "-shared", "-o", str(work / path.name), *map(str, parts)]
                command += [f"-Wl,--version-script={exports}", "-Wl,-z,defs", "-pthread", "-ldl", "-lm"]
                self._run(command, "linking", GENERATOR_SECONDS)
        return path
