#!/usr/bin/env python3
"""Times MSDA forward: every variant of deformkit, the hand-written kernel and the PyTorch peers, on the model workloads.

All competitors read the same memory and take turns within each round; the best call of all rounds counts. A competitor is timed
only after its result has been found to agree with the others'. See README.md in this folder.
"""

import argparse
import datetime
import gc
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

import numpy as np

import native
import peers
import report
from idleness import Idleness

ROOT = Path(__file__).resolve().parent.parent

# Between two competitors: OpenMP's threads go on spinning for some milliseconds after their last loop.
SETTLE_SECONDS = 0.01


def notice(text):
    print(f"note: {text}", file=sys.stderr, flush=True)


@dataclass
class Competitor:
    name: str
    call: Callable[[], np.ndarray]
    prepare: Callable[[], None] = lambda: None
    round_seconds: list = field(default_factory=list)

    @property
    def best(self):
        return min(self.round_seconds)


def variant_competitors(deformkit, bench_library, problem):
    """The CPU variants that this machine has, and the name of the one that the library takes by itself."""
    call = deformkit.msda_forward(problem)
    found = []
    for variant in bench_library.variants:
        if variant.on_device:
            continue
        deformkit.set_target(variant.target)
        try:
            call()
        except RuntimeError as error:
            notice(f"{variant.name} does not run here: {error}")
            continue
        if deformkit.last_variant() != variant.name:
            sys.exit(f"{variant.name} was asked for, {deformkit.last_variant()} ran")
        found.append(Competitor(variant.name, call, lambda target=variant.target: deformkit.set_target(target)))
    deformkit.set_target(None)
    call()
    return found, deformkit.last_variant()


def check_agreement(competitors, reference, problem):
    """Every competitor against `reference`; the end if one is wrong, or if there is nothing to be wrong about."""
    tolerance = problem.tolerance()
    reference.prepare()
    expected = np.array(reference.call())
    if not np.abs(expected).max() > 100 * tolerance:
        sys.exit(f"{problem.workload.name}: the outputs are too small to tell right from wrong")
    differences = {}
    for competitor in competitors:
        competitor.prepare()
        problem.output.fill(np.nan)  # what a competitor leaves unwritten shows
        difference = float(np.abs(competitor.call() - expected).max())
        if not difference <= tolerance:
            sys.exit(
                f"{problem.workload.name}: {competitor.name} differs from {reference.name} by {difference:.3g}, "
                f"rounding accounts for {tolerance:.3g}"
            )
        differences[competitor.name] = difference
    return differences, tolerance


def measure(competitors, rounds, slot_seconds):
    gc.collect()
    gc.disable()
    for round_number in range(rounds):
        # There and back again, so that nobody always comes after the same one.
        for competitor in competitors if round_number % 2 == 0 else reversed(competitors):
            competitor.prepare()
            time.sleep(SETTLE_SECONDS)
            best = float("inf")
            end = time.perf_counter() + slot_seconds
            while True:
                start = time.perf_counter()
                competitor.call()
                now = time.perf_counter()
                best = min(best, now - start)
                if now >= end:
                    break
            competitor.round_seconds.append(best)
    gc.enable()


def bench_workload(workload, threads_list, deformkit, bench_library, rounds, slot_seconds):
    problem = native.Problem(bench_library, workload)
    for threads in threads_list:
        deformkit.set_num_threads(threads)
        peers.set_num_threads(threads)
        competitors, chosen = variant_competitors(deformkit, bench_library, problem)
        if workload.hand_written:
            competitors.append(Competitor(report.HAND, bench_library.hand_msda(problem, threads)))
        competitors += [Competitor(name, call) for name, call in peers.calls(problem, notice).items()]

        # Without PyTorch the variants can at least contradict each other.
        by_name = {competitor.name: competitor for competitor in competitors}
        reference = by_name.get(report.GRID_SAMPLE, by_name.get(report.PEER, competitors[-1]))
        differences, tolerance = check_agreement(competitors, reference, problem)
        idleness = Idleness()
        measure(competitors, rounds, slot_seconds)
        yield {
            "workload": workload.name,
            "threads": threads,
            "batch": workload.batch,
            "queries": workload.queries,
            "heads": workload.heads,
            "channels": workload.channels,
            "levels": workload.levels,
            "points": workload.points,
            "bytes": problem.bytes,
            "samples": workload.samples,
            "chosen": chosen,
            "cores_taken_by_others": idleness.cores_taken_by_others(),
            "milliseconds": {c.name: c.best * 1e3 for c in competitors},
            "round_milliseconds": {c.name: [s * 1e3 for s in c.round_seconds] for c in competitors},
            "agreement": {"reference": reference.name, "tolerance": tolerance, "max_abs_difference": differences},
        }


def google_benchmark(binary, threads_list, pattern, quick):
    """msda_bench's JSON: the cost of a call through C, and unaligned values, which the round-robin does not cover."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "msda_bench.json"
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


def cpu_model():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return "unknown"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--build-dir", type=Path, default=ROOT / "build/release", help="where libdeformkit.so lies")
    parser.add_argument("--out", type=Path, default=ROOT / "build/bench", help="folder for msda.json and msda.png")
    parser.add_argument("--workloads", type=re.compile, default=re.compile(""), metavar="REGEX", help="only these")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: rough figures")
    parser.add_argument(
        "--threads",
        type=lambda text: [int(n) for n in text.split(",")],
        default=sorted({1, cores}),
        metavar="N[,N]",
        help="numbers of threads (default: 1 and one per core)",
    )
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    for name in ("DEFORMKIT_TARGET", "DEFORMKIT_NUM_THREADS"):
        os.environ.pop(name, None)
    try:
        deformkit, bench_library = native.load(arguments.build_dir)
    except FileNotFoundError as error:
        sys.exit(str(error))
    workloads = [w for w in bench_library.workloads if arguments.workloads.search(w.name)]
    if not workloads:
        sys.exit("no such workload; there are: " + ", ".join(w.name for w in bench_library.workloads))
    versions = {"deformkit": deformkit.version(), "numpy": np.__version__, **peers.versions()}
    if peers.torch is None:
        notice("PyTorch is not installed: no peers to compare with")
    elif peers.ms_deform_attn is None:
        notice("torch-ms-deform-attn is not installed: grid_sample is the only peer")

    rounds, slot_seconds = (2, 0.05) if arguments.quick else (5, 0.25)
    rows = []
    for number, workload in enumerate(workloads, 1):
        print(f"[{number}/{len(workloads)}] {workload.name}", file=sys.stderr, flush=True)
        rows += bench_workload(workload, arguments.threads, deformkit, bench_library, rounds, slot_seconds)

    result = {
        "machine": {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0))},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": versions,
        "rounds": rounds,
        "slot_seconds": slot_seconds,
        "variants": [v.name for v in bench_library.variants],
        "rows": [{**row, "ratios": report.ratios(row)} for row in rows],
    }
    binary = arguments.build_dir / "bench/msda_bench"
    if binary.exists():
        print("[msda_bench]", file=sys.stderr, flush=True)
        names = [w.name for w in workloads if not arguments.quick or w.name == "detr_encoder"]
        # float32 on every target, the other types on the one that the library chooses.
        target = report.target_of(rows[0]["chosen"])
        pattern = f"(_f32_[a-z0-9]+|_{target})/({'|'.join(['call_overhead', *names])})/"
        result["google_benchmark"] = google_benchmark(binary, arguments.threads, pattern, arguments.quick)

    print(report.table(result))
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "msda.json").write_text(json.dumps(result, indent=1) + "\n")
    written = [arguments.out / "msda.json"]
    try:
        import plot
    except ImportError as error:
        notice(f"no plot: {error}")
    else:
        written.append(plot.write(result, arguments.out / "msda.png"))
    print("written: " + ", ".join(map(str, written)))


if __name__ == "__main__":
    main()
