"""The search: Optuna proposes, the workshop compiles ahead, the meter times each candidate against the best so far.

How they share the cores: a kernel takes up to 20 s to compile, a candidate 3 to be checked and timed. So a compiler runs on each
core, and stands still while something is timed that uses all of them. Half of the time, at most, goes to candidates that differ
from the best in host knobs alone, which need no compiler.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import random
import statistics
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

import optuna
from candidates import Rejected, Workshop
from check import require_right
from measure import Meter, Runnable
from optuna.trial import FrozenTrial, Trial, TrialState
from space import Build, Result, Subject, Values

NOISE_PAIRS = 3
LEAST_GAIN = 1.01  # what is won by less is not worth a file, however quiet the machine is


@dataclass
class Settings:
    workloads: list[str]
    threads: int
    minutes: float
    seconds: float  # that a workload is timed for
    trials: Optional[int] = None
    seed: int = 1
    # Between proposing and compiling: tests make candidates fail here.
    tamper: Callable[[int, Runnable], Runnable] = lambda number, runnable: runnable


@dataclass
class Progress:
    """What is shown of a search as it goes."""

    number: int
    rejected: int
    best: float  # times as fast as the start


def geometric_mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(r) for r in ratios))


@dataclass(frozen=True)
class Standing:
    """Where a candidate stands."""

    values: Values
    runnable: Runnable
    ratios: dict[str, float]  # by workload: its time over the start's

    @property
    def gain(self) -> float:
        return 1 / geometric_mean(list(self.ratios.values()))


class Search:
    def __init__(
        self, build: Build, subject: Subject, workshop: Workshop, folder: Path, settings: Settings, start: Values
    ) -> None:
        self.build, self.subject, self.workshop, self.settings = build, subject, workshop, settings
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.start = start
        self.knobs = subject.knobs()
        self.steps = {name: knob.steps() for name, knob in self.knobs.items()}
        for name, value in start.items():
            if value not in self.steps[name]:
                self.steps[name] = sorted([*self.steps[name], value])
        # Another space, other workloads: another study. What was measured in one says nothing in the other.
        kind = json.dumps([self.steps, start, settings.workloads, settings.threads], sort_keys=True)
        self.name = f"{subject.name}-{hashlib.sha256(kind.encode()).hexdigest()[:8]}"
        self.study = self._study()
        self._random = random.Random(len(self.study.trials) + settings.seed)

    def _study(self) -> optuna.Study:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(
            # Each of its writes is a transaction: whenever this process ends, it is whole.
            storage=f"sqlite:///{self.folder}/studies.db",
            study_name=self.name,
            load_if_exists=True,
            sampler=optuna.samplers.TPESampler(
                n_startup_trials=12, multivariate=True, constant_liar=True, seed=self.settings.seed
            ),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=6),
        )
        for trial in study.get_trials(deepcopy=False, states=[TrialState.RUNNING]):
            study.tell(trial.number, state=TrialState.FAIL)  # an earlier process was interrupted
        if not study.trials:
            study.enqueue_trial(self._indices(self.start))
            study.set_user_attr("subject", self.subject.name)
            study.set_user_attr("workloads", self.settings.workloads)
            study.set_user_attr("threads", self.settings.threads)
            study.set_user_attr("start", self.start)
        return study

    def _indices(self, values: Values) -> dict[str, int]:
        return {name: self.steps[name].index(value) for name, value in values.items()}

    def _propose(self, best: Values, host_only: bool) -> tuple[Trial, Values]:
        """One in three is the sampler's own; others are neighbours of the best, since ranges are wide and most of what they hold
        is poor. `host_only`: with the best's schedule knobs, so that nothing has to be compiled."""
        kinds = ("host",) if host_only else ("schedule", "host")
        free = [name for name, knob in self.knobs.items() if knob.kind in kinds and len(self.steps[name]) > 1]
        indices = self._indices(best)
        if self._random.random() < 1 / 3:
            self.study.enqueue_trial({name: at for name, at in indices.items() if name not in free})
        elif self._has_started():
            own = [name for name in free if self.knobs[name].kind == kinds[0]]
            others = self._random.sample(free, min(self._random.choice((0, 1, 2)), len(free)))
            changed = {self._random.choice(own or free), *others}
            for name in changed:
                indices[name] = self._stepped(indices[name], len(self.steps[name]))
            self.study.enqueue_trial(indices)
        trial = self.study.ask()
        values = {name: steps[trial.suggest_int(name, 0, len(steps) - 1)] for name, steps in self.steps.items()}
        trial.set_user_attr("values", values)
        return trial, values

    def _has_started(self) -> bool:
        """The first trial is the start itself."""
        return len(self.study.get_trials(deepcopy=False)) > 1

    def _stepped(self, index: int, count: int) -> int:
        """Somewhere else: near, more often than far."""
        while True:
            far = self._random.choice((1, 1, 2, 4, 8)) * self._random.choice((-1, 1))
            if 0 <= index + far < count:
                return index + far

    def runnable(self, values: Values, number: int = -1, autoscheduler: Optional[str] = None) -> Runnable:
        library = self.workshop.library(self.subject, values, autoscheduler)
        return self.settings.tamper(number, Runnable(library, self._hosts(values)))

    def _hosts(self, values: Values) -> Values:
        return {name: values[name] for name, knob in self.knobs.items() if knob.kind == "host"}

    def _quiet(self) -> contextlib.AbstractContextManager[None]:
        """Compilers stand still where a call has all cores; otherwise the rest are theirs."""
        return self.workshop.quiet() if self.settings.threads >= (os.cpu_count() or 1) else contextlib.nullcontext()

    @contextlib.contextmanager
    def meter(self) -> Iterator[Meter]:
        with Meter(
            self.build.folder, self.subject.pass_name, self.subject.type, self.subject.target, self.settings.workloads,
            self.settings.threads,
        ) as meter:  # fmt: skip
            yield meter

    def times(self, meter: Meter, best: Runnable, candidate: Runnable, scale: float = 1) -> dict[str, tuple[float, float]]:
        """Seconds of each by workload."""
        with self._quiet():
            times = meter.compare(best, candidate, self.settings.seconds * scale)
            return {t.workload: (t.best, t.candidate) for t in times}

    def noise(self, meter: Meter, runnable: Runnable) -> float:
        """The most by which a library has been found to differ from itself, as a ratio above 1."""
        found = []
        for _ in range(NOISE_PAIRS):
            times = self.times(meter, runnable, runnable)
            found.append(abs(math.log(geometric_mean([c / b for b, c in times.values()]))))
        return math.exp(max(found))

    def complete(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=[TrialState.COMPLETE])

    def best(self) -> tuple[Values, dict[str, float]]:
        """The values that won again, and their times over those of the start by workload."""
        won = [t for t in self.complete() if t.user_attrs.get("won")]
        if not won:
            return self.start, {}
        trial = min(won, key=lambda t: t.value or 0.0)
        return trial.user_attrs["values"], trial.user_attrs["ratios"]

    def run(self, show: Callable[[Progress], None]) -> float:
        """Searches until time or trials are spent. Returns the noise."""
        begin = time.monotonic()
        deadline = begin + 60 * self.settings.minutes
        values, ratios = self.best()
        best = Standing(values, self.runnable(values), {name: ratios.get(name, 1.0) for name in self.settings.workloads})
        trials = self.study.get_trials(deepcopy=False)
        progress = Progress(len(trials), sum("rejected" in t.user_attrs for t in trials), best.gain)
        show(progress)
        require_right(self.build, self.subject, best.runnable, self.folder, thorough=False)
        cores = os.cpu_count() or 1
        pool = ThreadPoolExecutor(cores)
        compiled: deque[tuple[Trial, Values, Future[Runnable]]] = deque()
        has_schedules = any(k.kind == "schedule" for k in self.knobs.values())
        has_hosts = any(k.kind == "host" for k in self.knobs.values())
        measured, measuring = 0, 0.0
        with self.meter() as meter:
            noise = self.noise(meter, best.runnable)
            self.study.set_user_attr("noise", noise)
            try:
                while time.monotonic() < deadline and (self.settings.trials is None or measured < self.settings.trials):
                    while has_schedules and len(compiled) < cores:
                        trial, values = self._propose(best.values, host_only=not has_schedules)
                        compiled.append((trial, values, pool.submit(self.runnable, values, trial.number)))
                    ready = next((c for c in compiled if c[2].done()), None)
                    if ready is None and has_hosts and measuring <= (time.monotonic() - begin) / 2:
                        trial, values = self._propose(best.values, host_only=True)
                        future: Future[Runnable] = Future()
                        try:
                            same = Runnable(best.runnable.library, self._hosts(values))
                            future.set_result(self.settings.tamper(trial.number, same))
                        except Rejected as rejected:
                            future.set_exception(rejected)
                        ready = (trial, values, future)
                    elif ready is None:
                        wait([c[2] for c in compiled], timeout=1, return_when=FIRST_COMPLETED)
                        continue
                    else:
                        compiled.remove(ready)
                    started = time.monotonic()
                    best = self._try(meter, *ready, best, noise, progress)
                    measuring += time.monotonic() - started
                    measured += 1
                    show(progress)
            finally:
                self._abandon(pool, [trial for trial, _, _ in compiled])
        return noise

    def _try(
        self,
        meter: Meter,
        trial: Trial,
        values: Values,
        future: Future[Runnable],
        best: Standing,
        noise: float,
        progress: Progress,
    ) -> Standing:
        """Whether it is right, how fast it is, and the best of the two."""
        progress.number = max(progress.number, trial.number + 1)
        try:
            candidate = future.result()
            require_right(self.build, self.subject, candidate, self.folder, thorough=False)
            found = Standing(values, candidate, self._measure(meter, trial, best, candidate))
            won = found.gain > best.gain * noise
            if won:  # by luck? In a fresh process, and for longer
                again = self.times(meter, best.runnable, candidate, scale=2)
                found = Standing(values, candidate, {n: c / b * best.ratios[n] for n, (b, c) in again.items()})
                won = found.gain > best.gain * noise
            trial.set_user_attr("won", won)
            trial.set_user_attr("ratios", found.ratios)
            self.study.tell(trial, -math.log(found.gain))
            if won:
                progress.best = found.gain
                return found
        except optuna.TrialPruned:
            self.study.tell(trial, state=TrialState.PRUNED)
        except Rejected as rejected:
            progress.rejected += 1
            trial.set_user_attr("rejected", rejected.kind)
            trial.set_user_attr("why", str(rejected))
            self.study.tell(trial, state=TrialState.FAIL)
        return best

    def _abandon(self, pool: ThreadPoolExecutor, trials: list[Trial]) -> None:
        """What was proposed and not measured is no result."""
        pool.shutdown(wait=False, cancel_futures=True)
        self.workshop.stop()
        pool.shutdown(wait=True)
        for trial in trials:
            self.study.tell(trial.number, state=TrialState.FAIL)

    def _measure(self, meter: Meter, trial: Trial, best: Standing, candidate: Runnable) -> dict[str, float]:
        ratios: dict[str, float] = {}
        with self._quiet(), contextlib.closing(meter.compare(best.runnable, candidate, self.settings.seconds)) as times:
            for step, t in enumerate(times):
                ratios[t.workload] = t.candidate / t.best * best.ratios[t.workload]
                trial.report(math.log(geometric_mean(list(ratios.values()))), step)
                if trial.should_prune() or t.candidate > 3 * t.best:
                    trial.set_user_attr("ratios", ratios)
                    raise optuna.TrialPruned
        return ratios

    def simplified(self, values: Values, noise: float) -> Values:
        """Without what is no part of the gain: each knob that can go back to its default without loss does."""
        values, standard = dict(values), self.subject.standard()
        with self.meter() as meter:
            for name in [n for n in values if values[n] != standard[n]]:
                simpler = {**values, name: standard[name]}
                try:
                    best, candidate = self.runnable(values), self.runnable(simpler)
                    times = self.times(meter, best, candidate)
                except Rejected:
                    continue
                if geometric_mean([c / b for b, c in times.values()]) < math.sqrt(noise):
                    values = simpler
        return values

    def final(self, values: Values, noise: float) -> Optional[Result]:
        """The winner against the defaults, in a process of its own, with all tests of the variant. None: it has not won."""
        before, after = self.runnable(self.subject.standard()), self.runnable(values)
        try:
            require_right(self.build, self.subject, after, self.folder, thorough=True)
            with self.meter() as meter:
                times = self.times(meter, before, after, scale=3)
        except Rejected as rejected:
            self.study.set_user_attr("refused", str(rejected))
            return None
        ratio = geometric_mean([b / a for b, a in times.values()])
        self.study.set_user_attr("final", {name: [1e3 * b, 1e3 * a] for name, (b, a) in times.items()})
        if ratio < max(noise, LEAST_GAIN):
            return None
        milliseconds = {name: (1e3 * b, 1e3 * a) for name, (b, a) in times.items()}
        return Result(values, self.settings.threads, noise, ratio, milliseconds)

    def autoscheduled(self, name: str) -> dict[str, tuple[float, float]]:
        """Seconds of the defaults, and of what an autoscheduler makes of the same algorithms. A kernel that runs in place of
        another takes blocks, which the host has divided among threads: it is left out. Raises Rejected."""
        values = self.subject.standard()
        standard = self.runnable(values)
        whole = {n: self.knobs[n].highest for n in values if n.endswith(".head_major_reads")}
        candidate = self.runnable({**values, **whole}, autoscheduler=name)
        with self.meter() as meter:
            return self.times(meter, standard, candidate)


def stored(folder: Path) -> list[optuna.Study]:
    path = folder / "studies.db"
    if not path.exists():
        return []
    names = optuna.get_all_study_names(f"sqlite:///{path}")
    return [optuna.load_study(study_name=name, storage=f"sqlite:///{path}") for name in names]
