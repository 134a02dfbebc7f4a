#!/usr/bin/env python3
"""Finds better knobs for this machine: ./run tune --help."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import native  # noqa: E402
import page  # noqa: E402
from candidates import Rejected, Workshop  # noqa: E402
from search import Progress, Search, Settings  # noqa: E402
from space import Build, Subject, cpu_folder, machine, read_build, read_params, subjects, write_params  # noqa: E402
from tqdm import tqdm  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./run tune",
        description="Searches the knobs of variants (schedules/*_knobs.h) for the fastest, over workloads by geometric mean. "
        "What has been measured is kept in build/tune: the same command goes on where it was interrupted.",
    )
    add = parser.add_argument
    add("pattern", nargs="?", default="f32", help="of variants: a regular expression (default: f32 of the best target)")
    add("--workload", default="", metavar="REGEX", help="only these (default: all of the pass)")
    add("--minutes", type=float, default=20, help="for each pass, type and target (default: 20)")
    add("--trials", type=int, help="no more candidates than these")
    add("--threads", type=int, default=os.cpu_count(), help="of a call (default: one per core)")
    add("--seconds", type=float, default=0.2, help="that a workload is timed for (default: 0.2)")
    add("--start", type=Path, metavar="FOLDER", help="of .params to start from, instead of what the build has")
    add(
        "--out", type=Path, metavar="FOLDER", help="for results (default: schedules/tuned/local/<CPU>, which ./run build prefers)"
    )
    add("--autoscheduler", action="append", default=[], metavar="NAME", help="time this one of Halide's, such as adams2019")
    add("--report", action="store_true", help="write build/tune/report.html of all that was measured, and do no more")
    add("--list", action="store_true", help="show the knobs and do no more")
    add("--build-dir", type=Path, default=ROOT / "build/release", help=argparse.SUPPRESS)
    add("--folder", type=Path, default=ROOT / "build/tune", help=argparse.SUPPRESS)
    return parser.parse_args()


def supported_targets(build: Build) -> set[str]:
    """Whose features the CPU lists."""

    def plain(feature: str) -> str:
        return feature.replace(".", "").replace("_", "")

    info = Path("/proc/cpuinfo").read_text()
    listed = {plain(flag) for flag in re.findall(r"^(?:flags|Features)\s*:(.*)$", info, re.MULTILINE)[0].split()}
    text = (build.folder / "generated/deformkit_lists/deformkit_targets.inc").read_text()
    targets = re.findall(r'DEFORMKIT_TARGET\((\w+), .*, "([^"]*)"\)', text)
    return {name for name, features in targets if all(plain(f) in listed for f in features.split())}


def chosen(build: Build, bench: native.BenchLibrary, pattern: str) -> list[Subject]:
    """What the pattern matches and this machine can run; of its best target alone where the pattern names none."""
    supported = supported_targets(build)
    found = [s for s in subjects(build, bench.passes, pattern) if s.target in supported]
    if not any(v.target in pattern for v in build.variants.values()):
        found = [s for s in found if s.target == found[0].target]
    return found


def say(text: str) -> None:
    print(f"== {text}", file=sys.stderr, flush=True)


class Bar:
    """The best so far, and how much time is left."""

    def __init__(self, name: str, minutes: float) -> None:
        self._begin, self._name = time.monotonic(), name
        self._bar = tqdm(
            total=round(60 * minutes), file=sys.stderr, mininterval=1 if sys.stderr.isatty() else 30,
            bar_format="{desc} |{bar:20}| {elapsed}<{remaining}",
        )  # fmt: skip

    def __call__(self, progress: Progress) -> None:
        rejected = f", {progress.rejected} rejected" if progress.rejected else ""
        text = f"{self._name}: {progress.best:.3f}x after {progress.number} candidates{rejected}"
        self._bar.set_description(text, refresh=False)
        self._bar.update(min(int(time.monotonic() - self._begin), self._bar.total) - self._bar.n)

    def close(self) -> None:
        self._bar.refresh()
        self._bar.close()


def tune(search: Search, out: Path) -> None:
    subject = search.subject
    bar = Bar(subject.name, search.settings.minutes)
    try:
        noise = search.run(bar)
    finally:
        bar.close()
    values, _ = search.best()
    if values == search.start:
        say(f"{subject.name}: nothing found that is faster by more than the noise, {noise:.3f}x")
        return
    say(f"{subject.name}: taking back what the gain does not need")
    values = search.simplified(values, noise)
    result = search.final(values, noise)
    if result is None:
        say(f"{subject.name}: {search.study.user_attrs.get('refused', 'what won is not faster than the defaults in the end')}")
        return
    for path in write_params(out, subject, result, machine()):
        say(f"wrote {path}")
    say(f"{subject.name}: {result.ratio:.3f}x as fast as the defaults in geometric mean (noise {noise:.3f}x)")


def try_autoscheduler(search: Search, name: str) -> None:
    try:
        times = search.autoscheduled(name)
    except Rejected as rejected:
        search.study.set_user_attr(f"autoscheduler {name}", f"{rejected.kind}: {rejected}")
        say(f"{search.subject.name}: {name}: {rejected.kind}: {rejected}")
        return
    search.study.set_user_attr(f"autoscheduler {name}", {w: [1e3 * b, 1e3 * a] for w, (b, a) in times.items()})
    for workload, (before, after) in times.items():
        text = f"by hand {1e3 * before:.3f} ms, {name} {1e3 * after:.3f} ms, {after / before:.2f}x"
        say(f"{search.subject.name}/{workload}: {text}")


def main() -> int:
    arguments = parse()
    if arguments.report:
        path = arguments.folder / "report.html"
        page.write(arguments.folder, path)
        print(path)
        return 0
    build = read_build(arguments.build_dir)
    bench = native.BenchLibrary(build.folder / "libdeformkit_bench.so")
    todo = chosen(build, bench, arguments.pattern)
    if not todo:
        print(f"run tune: no variant that a workload measures here matches '{arguments.pattern}'", file=sys.stderr)
        return 2
    autoschedulers = [build.autoscheduler(name) for name in arguments.autoscheduler]
    local = ROOT / "schedules/tuned/local" / cpu_folder()
    out = arguments.out or local
    folders = [arguments.start] if arguments.start else [local, ROOT / "schedules/tuned"]
    workshop = Workshop(build, arguments.folder / "objects")
    for subject in todo:
        pass_ = next(p for p in bench.passes if p.name == subject.pass_name)
        workloads = [w.name for w in pass_.workloads if re.search(arguments.workload, w.name)]
        if not workloads:
            print(f"run tune: {subject.pass_name} has no workload like '{arguments.workload}'", file=sys.stderr)
            return 2
        start = read_params(folders, subject)
        if arguments.list:
            for name, knob in subject.knobs().items():
                text = f"{knob.kind}, {knob.lowest} to {knob.highest}, default {knob.standard}: {knob.meaning}"
                print(f"{name}={start[name]}  # {text}")
            continue
        settings = Settings(workloads, arguments.threads, arguments.minutes, arguments.seconds, arguments.trials)
        search = Search(build, subject, workshop, arguments.folder, settings, start)
        try:
            for name in autoschedulers:
                try_autoscheduler(search, name)
            if not autoschedulers:
                tune(search, out)
        except KeyboardInterrupt:
            workshop.stop()
            say("interrupted. What was measured is kept: the same command goes on from there")
            return 130
        except Rejected as rejected:
            print(f"run tune: {subject.name}: where the search starts from is {rejected.kind}: {rejected}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
