#!/usr/bin/env python3
"""Times every pass of every operator on the model workloads: every variant of deformkit, the storage types, and what users
would otherwise run.

All competitors read the same numbers and take turns within each round; the best call of all rounds counts. A competitor is
timed only after its result has been found to agree with the others'. See README.md in this folder.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import gc
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

import native
import numpy as np
import peers
import report
from idleness import Idleness
from operators import DESCRIPTIONS
from report import Row

ROOT = Path(__file__).resolve().parent.parent

# Between two competitors: OpenMP's threads go on spinning for some milliseconds after their last loop.
SETTLE_SECONDS = 0.01


# A competitor that has taken this long has had its turns, once it has had two.
PATIENCE_SECONDS = 3.0


class Notices(list[str]):
    """What is left out, said at once and kept for the results."""

    def __call__(self, text: str) -> None:
        if text not in self:
            self.append(text)
            print(f"note: {text}", file=sys.stderr, flush=True)


@dataclass
class Competitor:
    name: str
    call: Callable[[], native.Outputs]  # the outputs by name
    prepare: Callable[[], None] = lambda: None
    round_seconds: list[float] = field(default_factory=list)
    total_seconds: float = 0.0

    @property
    def best(self) -> float:
        return min(self.round_seconds)

    @property
    def has_had_its_turns(self) -> bool:
        return self.total_seconds > PATIENCE_SECONDS and len(self.round_seconds) >= 2


def variant_competitors(deformkit: native.Deformkit, problem: native.Problem, notice: Callable[[str], None]) -> list[Competitor]:
    """The CPU variants of the problem's type that this machine has."""
    call = deformkit.call(problem)
    found = []
    for variant in problem.pass_.variants:
        if variant.type != problem.type.name:
            continue
        if variant.on_device:
            notice(f"{variant.name} left out: it runs on a device (operator_bench times it)")
            continue
        prepare = functools.partial(deformkit.set_target, variant.target)
        prepare()
        try:
            call()
        except RuntimeError as error:
            notice(f"{variant.name} left out: {error}")
            continue
        if deformkit.last_variant() not in variant.kernels:
            sys.exit(f"{variant.name} was asked for, {deformkit.last_variant()} ran")
        found.append(Competitor(variant.name, call, prepare))
    deformkit.set_target(None)
    return found


def chosen_competitor(deformkit: native.Deformkit, problem: native.Problem) -> Competitor:
    """The variant that the library takes by itself."""
    call = deformkit.call(problem)
    deformkit.set_target(None)
    call()
    return Competitor(deformkit.last_variant(), call, lambda: deformkit.set_target(None))


def check_agreement(competitors: list[Competitor], reference: Competitor, problem: native.Problem) -> Row:
    """Every competitor against `reference`; the end if one is wrong, or if there is nothing to be wrong about. Returns the
    largest differences, in units of what rounding accounts for."""
    where = f"{problem.pass_.name}/{problem.workload.name}"
    tolerances = DESCRIPTIONS[problem.pass_.name].tolerances(problem)
    reference.prepare()
    expected = {name: np.array(array) for name, array in reference.call().items()}
    for name, array in expected.items():
        if not (np.abs(array) / tolerances[name]).max() > 100:
            sys.exit(f"{where}: {name} is too small to tell right from wrong")
    differences: Row = {}
    for competitor in competitors:
        competitor.prepare()
        problem.forget_outputs()
        differences[competitor.name] = {}
        for name, array in competitor.call().items():
            worst = float((np.abs(array - expected[name]) / tolerances[name]).max())
            if not worst <= 1:
                sys.exit(
                    f"{where}: {name} of {competitor.name} differs from that of {reference.name} by {worst:.3g} times what "
                    "rounding accounts for"
                )
            differences[competitor.name][name] = worst
    return {"reference": reference.name, "differences_in_tolerances": differences}


def check_type(competitor: Competitor, problem: native.Problem, deformkit: native.Deformkit) -> None:
    """A storage type against float32 on the very same numbers: what remains is rounding, and that of the result."""
    rounded = problem.in_float32()
    tolerances = DESCRIPTIONS[problem.pass_.name].tolerances(rounded)
    deformkit.set_target(None)
    expected = deformkit.call(rounded)()
    problem.forget_outputs()
    for name, array in competitor.call().items():
        allowed = tolerances[name] + problem.type.epsilon * np.abs(expected[name])
        worst = float((np.abs(problem.type.decode(array) - expected[name]) / allowed).max())
        if not worst <= 1:
            sys.exit(
                f"{problem.pass_.name}/{problem.workload.name}: {name} of {competitor.name} differs from float32's by "
                f"{worst:.3g} times what rounding accounts for"
            )


def measure(competitors: list[Competitor], rounds: int, slot_seconds: float) -> None:
    gc.collect()
    gc.disable()
    for round_number in range(rounds):
        # There and back again, so that nobody always comes after the same one.
        for competitor in competitors if round_number % 2 == 0 else reversed(competitors):
            if competitor.has_had_its_turns:
                continue
            competitor.prepare()
            time.sleep(SETTLE_SECONDS)
            best = float("inf")
            begin = time.perf_counter()
            while True:
                start = time.perf_counter()
                competitor.call()
                now = time.perf_counter()
                best = min(best, now - start)
                if now >= begin + slot_seconds:
                    break
            competitor.round_seconds.append(best)
            competitor.total_seconds += now - begin
    gc.enable()


def bench_row(
    problems: dict[str, native.Problem],
    compared: bool,
    checked: set[str],
    threads: int,
    arguments: argparse.Namespace,
    deformkit: native.Deformkit,
    bench_library: native.BenchLibrary,
    notice: Callable[[str], None],
) -> Row:
    """What a number of threads makes of a workload. Local to it: graphs of autograd take gigabytes."""
    problem = problems["f32"]
    pass_, workload = problem.pass_, problem.workload
    deformkit.set_num_threads(threads)
    peers.set_num_threads(threads)
    chosen = chosen_competitor(deformkit, problem)
    competitors, agreement = [chosen], None
    if compared:
        competitors = variant_competitors(deformkit, problem, notice)
        if workload.hand_written:
            competitors.append(Competitor("hand_avx512", bench_library.hand(problem, threads)))
        of_peers = DESCRIPTIONS[pass_.name].peer_calls(problem, notice)
        competitors += [Competitor(name, call) for name, call in of_peers.items()]
        # Without PyTorch the variants can at least contradict each other.
        by_name = {competitor.name: competitor for competitor in competitors}
        reference = by_name[next(iter(of_peers), competitors[-1].name)]
        agreement = check_agreement(competitors, reference, problem)
    names = {"f32": chosen.name}
    for storage, other in problems.items():
        if storage == "f32":
            continue
        competitor = chosen_competitor(deformkit, other)
        names[storage] = competitor.name
        if storage not in checked:
            check_type(competitor, other, deformkit)
            checked.add(storage)
        competitors.append(competitor)
    idleness = Idleness()
    measure(competitors, arguments.rounds, arguments.slot_seconds)
    return {
        "workload": workload.name,
        "threads": threads,
        "shapes": {a.name: a.shape for a in workload.arguments},
        "bytes": problem.bytes,
        "samples": workload.samples,
        "chosen": chosen.name,
        "compared": compared,
        "types": names,
        "cores_taken_by_others": idleness.cores_taken_by_others(),
        "milliseconds": {c.name: c.best * 1e3 for c in competitors},
        "round_milliseconds": {c.name: [s * 1e3 for s in c.round_seconds] for c in competitors},
        "agreement": agreement,
    }


def bench_workload(
    pass_: native.Pass,
    workload: native.Workload,
    types: list[str],
    arguments: argparse.Namespace,
    deformkit: native.Deformkit,
    bench_library: native.BenchLibrary,
    notice: Callable[[str], None],
) -> Iterator[Row]:
    """One row for each number of threads. Without f32 among the types, float32 is there to compare with, and nothing else."""
    problems = {name: native.Problem(bench_library, pass_, workload, name) for name in dict.fromkeys(["f32", *types])}
    compared, checked = "f32" in types, set[str]()
    for threads in arguments.threads:
        yield bench_row(problems, compared, checked, threads, arguments, deformkit, bench_library, notice)


def select(bench_library: native.BenchLibrary, pattern: re.Pattern[str]) -> list[tuple[native.Pass, native.Workload, list[str]]]:
    """(pass, workload, storage types) of what the filter matches."""
    selected = []
    for pass_ in bench_library.passes:
        types = dict.fromkeys(variant.type for variant in pass_.variants)
        for workload in pass_.workloads:
            wanted = [t for t in types if pattern.search(f"{pass_.name}_{t}/{workload.name}")]
            if wanted:
                selected.append((pass_, workload, wanted))
    return selected


def google_benchmark_pattern(passes: list[Row]) -> str:
    """The cost of a call through C, and values on 16 bytes, which the round-robin does not cover."""
    patterns = []
    for pass_ in passes:
        workload = pass_["unaligned"]
        for name in pass_["variants"]:
            patterns.append(f"{name}/call_overhead/")
        if workload:
            patterns.append(f"{pass_['rows'][0]['chosen']}/{workload}/(unaligned|threads)")
    return f"^({'|'.join(patterns)})"


def google_benchmark(binary: Path, threads_list: list[int], pattern: str, quick: bool) -> Any:
    """operator_bench's JSON."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "operator_bench.json"
        command = [
            str(binary),
            f"--threads={','.join(map(str, threads_list))}",
            f"--benchmark_filter={pattern}",
            f"--benchmark_out={out}",
            "--benchmark_out_format=json",
        ]
        if quick:
            command += ["--benchmark_repetitions=3", "--benchmark_min_time=0.02"]
        run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if run.returncode:
            sys.exit(f"{binary.name} failed with status {run.returncode}:\n{run.stderr}")
        return json.loads(out.read_text())


def python_calls(package: Path, notice: Callable[[str], None]) -> dict[str, float]:
    """Microseconds of a call through the Python package, which lies in `package`; {} where it was not built."""
    if not list(package.glob("deformkit/_native*.so")):
        notice("the Python package was not built: no calls from Python")
        return {}
    program = Path(__file__).parent / "python_calls.py"
    run = subprocess.run(
        [sys.executable, str(program)], env={**os.environ, "PYTHONPATH": str(package)}, capture_output=True, text=True
    )
    if run.returncode:
        sys.exit(f"{program.name} failed with status {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout)


def cpu_model() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/release", help="where libdeformkit.so lies")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench", help="folder for bench.json and the plots")
    parser.add_argument(
        "--filter",
        type=re.compile,
        default=re.compile(""),
        metavar="REGEX",
        help="only what this matches of <operator>_<pass>_<type>/<workload>, such as msda_backward_f32/detr_encoder",
    )
    parser.add_argument("--list", action="store_true", help="print what there is, and what of it would be measured")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: rough figures")
    parser.add_argument(
        "--threads",
        type=lambda text: [int(n) for n in text.split(",")],
        default=sorted({1, cores}),
        metavar="N[,N]",
        help="numbers of threads (default: 1 and one per core)",
    )
    arguments = parser.parse_args()
    arguments.rounds, arguments.slot_seconds = (2, 0.05) if arguments.quick else (5, 0.25)
    return arguments


def main() -> None:
    arguments = parse_arguments()
    for name in ("DEFORMKIT_TARGET", "DEFORMKIT_NUM_THREADS"):
        os.environ.pop(name, None)
    try:
        deformkit, bench_library = native.load(arguments.build_dir)
    except FileNotFoundError as error:
        sys.exit(str(error))
    selected = select(bench_library, arguments.filter)
    if not selected:
        sys.exit("the filter matches nothing; --list without a filter prints what there is")
    if arguments.list:
        print("\n".join(f"{pass_.name}_{t}/{workload.name}" for pass_, workload, types in selected for t in types))
        return
    notice = Notices()
    versions = {"deformkit": deformkit.version(), "numpy": np.__version__, **peers.versions()}
    if "torch" not in versions:
        notice("PyTorch is not installed: no peers to compare with")
    elif "torch-ms-deform-attn" not in versions:
        notice("torch-ms-deform-attn is not installed: it is left out")

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = time.monotonic()
    passes: dict[str, Row] = {}
    stopped = False
    for number, (pass_, workload, types) in enumerate(selected, 1):
        print(f"[{number}/{len(selected)}] {pass_.name}/{workload.name}: {' '.join(types)}", file=sys.stderr, flush=True)
        of_pass = passes.setdefault(
            pass_.name,
            {
                "name": pass_.name,
                "title": pass_.title,
                "peers": DESCRIPTIONS[pass_.name].peers,
                "variants": [v.name for v in pass_.variants if v.type == "f32" and not v.on_device],
                "unaligned": None,
                "rows": [],
            },
        )
        if workload.index == 0 and "f32" in types:
            of_pass["unaligned"] = workload.name
        try:
            for row in bench_workload(pass_, workload, types, arguments, deformkit, bench_library, notice):
                of_pass["rows"].append({**row, "ratios": report.ratios(row)})
        except KeyboardInterrupt:
            notice(f"stopped during {pass_.name}/{workload.name}: what was to come is left out")
            stopped = True
            break
    passes = {name: p for name, p in passes.items() if p["rows"]}
    if not passes:
        sys.exit(1)

    result = {
        "machine": {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0))},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": versions,
        "rounds": arguments.rounds,
        "slot_seconds": arguments.slot_seconds,
        "patience_seconds": PATIENCE_SECONDS,
        "passes": list(passes.values()),
        "left_out": notice,
        "python_microseconds": python_calls(arguments.build_dir / "python", notice),
    }
    compared = [p for p in passes.values() if any(row["compared"] for row in p["rows"])]
    binary = arguments.build_dir / "bench/operator_bench"
    if compared and binary.exists() and not stopped:
        print("[operator_bench]", file=sys.stderr, flush=True)
        pattern = google_benchmark_pattern(compared)
        try:
            result["google_benchmark"] = google_benchmark(binary, arguments.threads, pattern, arguments.quick)
        except KeyboardInterrupt:
            notice("stopped during operator_bench: it is left out")
    result["seconds"] = time.monotonic() - started

    print(report.text(result))
    arguments.out.mkdir(parents=True, exist_ok=True)
    written = [arguments.out / "bench.json"]
    written[0].write_text(json.dumps(result, indent=1) + "\n")
    try:
        import plot
    except ImportError as error:
        notice(f"no plot: {error}")
    else:
        written += [plot.write(result, p, arguments.out / f"{p['name']}.png") for p in compared]
    print("written: " + ", ".join(map(str, written)))


if __name__ == "__main__":
    main()
