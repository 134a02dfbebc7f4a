"""python -m deformkit.tune: better numbers for this machine, without a compiler.

The library's knobs decide how a call is divided among blocks and threads; their defaults suit most machines. This times other
values on shapes of real models, one knob after the other, and keeps what wins again in a fresh process, by more than two runs of
the same differ, in a file that the library loads from then on. Remove the file to be rid of it.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import itertools
import json
import math
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional

import numpy as np

import deformkit
from deformkit import _native
from deformkit._tuning import steps, write_atomically

Values = dict[str, int]

LEAST_GAIN = 1.01  # what is won by less is not kept, however quiet the machine is
PASSES = 3  # over all knobs, unless one changes nothing


@dataclass
class Workload:
    """A call on the shapes of a model."""

    name: str
    kernel: str  # whose host knobs it is planned with, such as "msda_forward"
    call: Callable[[], Any]


def _numbers(random: np.random.Generator, *shape: int) -> Any:
    return random.random(shape, dtype=np.float32)


def _attention(random: np.random.Generator, levels: list[tuple[int, int]], queries: int, spread: float) -> list[Any]:
    """Eight heads of 32 channels, four points: each query's samples lie within `spread` of its own place."""
    shapes = np.array(levels)
    sizes = shapes.prod(axis=1)
    at = [np.stack(np.meshgrid(np.arange(w) + 0.5, np.arange(h) + 0.5), -1).reshape(-1, 2) / (w, h) for h, w in levels]
    places = np.concatenate(at)
    places = places[np.arange(queries) * len(places) // queries]
    offsets = spread * (_numbers(random, 1, queries, 8, len(levels), 4, 2) - 0.5)
    return [
        _numbers(random, 1, int(sizes.sum()), 8, 32),
        shapes,
        np.concatenate([[0], sizes.cumsum()[:-1]]),
        (places[None, :, None, None, None] + offsets).astype(np.float32),
        _numbers(random, 1, queries, 8, len(levels), 4),
    ]


def workloads() -> list[Workload]:
    """What models ask of each operator, forward and backward."""
    random = np.random.default_rng(1)
    levels = [(100, 167), (50, 84), (25, 42), (13, 21)]
    encoder, decoder = _attention(random, levels, 22223, 0.05), _attention(random, levels, 900, 1.0)
    kernels = _attention(random, [(60, 40)] * 4, 9680, 1.0)
    kernels[3] = kernels[3] * np.array([40, 60], np.float32)  # in cells
    maps = np.array([[[64, 176], [32, 88], [16, 44], [8, 22]]] * 6)
    cells = maps.prod(axis=2)
    aggregation = [
        _numbers(random, 1, int(cells.sum()), 256),
        maps,
        np.concatenate([[0], cells.ravel().cumsum()[:-1]]).reshape(6, 4),
        # About one in six is inside.
        (2.45 * _numbers(random, 1, 900, 13, 6, 2) - 0.7).astype(np.float32),
        _numbers(random, 1, 900, 13, 6, 4, 8),
    ]
    operators: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
        "msda": (deformkit.multi_scale_deformable_attn, deformkit.multi_scale_deformable_attn_backward),
        "da": (deformkit.deformable_aggregation, deformkit.deformable_aggregation_backward),
        "gka": (deformkit.geometric_kernel_attention, deformkit.geometric_kernel_attention_backward),
    }
    found = []
    for operator, name, inputs in (
        ("msda", "encoder", encoder),
        ("msda", "decoder", decoder),
        ("da", "cameras", aggregation),
        ("gka", "kernels", kernels),
    ):
        forward, backward = operators[operator]
        gradient = _numbers(random, *(1, inputs[3].shape[1], 256))
        with_gradient = functools.partial(backward, *inputs, gradient)
        found.append(Workload(f"{operator}_forward/{name}", f"{operator}_forward", functools.partial(forward, *inputs)))
        found.append(Workload(f"{operator}_backward/{name}", f"{operator}_backward_value", with_gradient))
    return found


def apply(values: Values) -> None:
    for name, value in values.items():
        _native.set_knob(name, value)


def compare(calls: list[Workload], best: Values, candidate: Values, seconds: float) -> dict[str, tuple[float, float]]:
    """Seconds of both by workload: the best call of each, call by call in turn."""
    found = {}
    for workload in calls:
        shortest = [math.inf, math.inf]
        spent = 0.0
        for turn in itertools.count():
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                apply((best, candidate)[side])
                start = time.perf_counter()
                workload.call()
                took = time.perf_counter() - start
                shortest[side] = min(shortest[side], took)
                spent += took
            if turn >= 4 and (spent > seconds or shortest[1] > 2 * shortest[0]):
                break
        found[workload.name] = (shortest[0], shortest[1])
    apply(best)
    return found


def gain(times: dict[str, tuple[float, float]]) -> float:
    """How many times as fast the second is, in geometric mean."""
    return math.exp(sum(math.log(before / after) for before, after in times.values()) / len(times))


def noise_of(calls: list[Workload], values: Values, seconds: float) -> float:
    return max(LEAST_GAIN, *(math.exp(abs(math.log(gain(compare(calls, values, values, seconds))))) for _ in range(3)))


def same_results(calls: list[Workload], one: Values, other: Values) -> bool:
    """Knobs may change the order of sums, and nothing else."""
    for workload in calls:
        results = []
        for values in (one, other):
            apply(values)
            result = workload.call()
            results.append(result if isinstance(result, tuple) else (result,))
        for a, b in zip(*results):
            if not np.allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(a).max())):
                return False
    return True


def search(
    calls: list[Workload], start: Values, ranges: dict[str, list[int]], seconds: float, say: Callable[[str], None]
) -> Values:
    """One knob after the other, up and down as long as it pays, until a pass over all of them changes nothing."""
    best = dict(start)
    noise = noise_of(calls, best, seconds)
    for _ in range(PASSES):
        before = dict(best)
        for name, values in ranges.items():
            for direction in (1, -1):
                at = values.index(best[name]) if best[name] in values else min(
                    range(len(values)), key=lambda i: abs(values[i] - best[name])
                )  # fmt: skip
                misses = 0
                while 0 <= at + direction < len(values) and misses < 2:  # past one that makes no difference
                    at += direction
                    candidate = {**best, name: values[at]}
                    if gain(compare(calls, best, candidate, seconds)) > noise:
                        say(f"{name}={values[at]}")
                        best, misses = candidate, 0
                    else:
                        misses += 1
        if best == before:
            break
    return best


def read_settings(path: Path) -> Values:
    """Of a file that the library would load; of any other, nothing."""
    try:
        lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
        values = {name: int(value) for name, value in (line.split("=") for line in lines)}
        return values if values.pop("end") == len(values) == len(lines) - 1 else {}
    except (OSError, ValueError, KeyError):
        return {}


def write_settings(path: Path, values: Values, notes: list[str]) -> None:
    """Whole or not at all: as deformkit.h describes such a file."""
    lines = [*(f"# {note}" for note in notes), *(f"{name}={value}" for name, value in values.items()), f"end={len(values)}"]
    write_atomically(path, "\n".join(lines) + "\n", mode=0o600)


def confirm(kernel: str, start: Values, values: Values, seconds: float, threads: int) -> Optional[tuple[float, dict[str, Any]]]:
    """Once more, in a fresh process and for longer: the gain and the times, or None where it is no more than noise."""
    request = json.dumps([kernel, start, values, seconds, threads])
    command = [sys.executable, "-m", "deformkit.tune", "--confirm", request]
    done = subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, "DEFORMKIT_KNOBS": ""})
    if done.returncode != 0:
        return None
    noise, times = json.loads(done.stdout)
    return (gain(times), times) if gain(times) > noise else None


def _confirm(text: str) -> None:
    kernel, start, values, seconds, threads = json.loads(text)
    deformkit.set_num_threads(threads)
    calls = [w for w in workloads() if w.kernel == kernel]
    if not same_results(calls, start, values):
        sys.exit("results differ")
    print(json.dumps([noise_of(calls, start, seconds), compare(calls, start, values, 3 * seconds)]))


def main(arguments: Optional[list[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m deformkit.tune", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "pattern", nargs="?", default="", help='a regular expression, searched in names such as "msda_forward_f32_avx2"'
    )
    parser.add_argument("--threads", type=int, default=0, help="of a call; 0: one per core (default)")
    parser.add_argument("--seconds", type=float, default=0.2, help="that a workload is timed for (default: 0.2)")
    parser.add_argument("--list", action="store_true", help="show knobs, their values and ranges, and do no more")
    parser.add_argument("--file", type=Path, help="to write to (default: the one that the library loads)")
    parser.add_argument("--confirm", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.confirm:
        _confirm(options.confirm)
        return 0
    if options.list:
        for name, value, standard, lowest, highest, meaning in _native.knobs():
            if re.search(options.pattern, name):
                print(f"{name}={value}  # {lowest} to {highest}, default {standard}: {meaning}")
        return 0
    if os.environ.get("DEFORMKIT_KNOBS") != "":  # the library's own values, not those of an earlier run
        file = options.file or _native.knobs_file()
        if not file:
            print("deformkit.tune: there is no folder for settings: HOME is not set. Name a file: --file FILE", file=sys.stderr)
            return 1
        given = sys.argv[1:] if arguments is None else arguments
        command = [sys.executable, "-m", "deformkit.tune", *given, "--file", str(file)]
        return subprocess.run(command, env={**os.environ, "DEFORMKIT_KNOBS": ""}).returncode
    if options.file is None:
        parser.error("DEFORMKIT_KNOBS is empty: name a file, --file FILE")
    try:
        return tune(options)
    except KeyboardInterrupt:
        print("\ninterrupted: what had been confirmed is kept", file=sys.stderr)
        return 130


def tune(options: argparse.Namespace) -> int:
    deformkit.set_num_threads(options.threads)
    everything = workloads()
    kept = read_settings(options.file)
    tuned = False
    for kernel in dict.fromkeys(w.kernel for w in everything):
        calls = [w for w in everything if w.kernel == kernel]
        calls[0].call()
        type_target = "_".join(deformkit.last_variant().split("_")[-2:])
        owner = f"{kernel}_{type_target}"
        if not re.search(options.pattern, owner):
            continue
        tuned = True
        rows = [row for row in _native.knobs() if row[0].startswith(f"{owner}.")]
        start = {name: value for name, value, *_ in rows}
        print(f"{owner}: {len(start)} knobs, {', '.join(w.name for w in calls)}", flush=True)
        ranges = {name: steps(lowest, highest, standard) for name, _, standard, lowest, highest, _ in rows}
        best = search(calls, start, ranges, options.seconds, lambda text: print(f"  {text}", flush=True))
        changed = {name: value for name, value in best.items() if value != start[name]}
        confirmed = confirm(kernel, start, best, options.seconds, options.threads) if changed else None
        if confirmed is None:
            print("  nothing that is faster by more than the noise", flush=True)
            continue
        ratio, times = confirmed
        kept = {name: value for name, value in kept.items() if not name.startswith(f"{owner}.")}
        kept.update(changed)
        today = datetime.date.today().isoformat()
        write_settings(options.file, kept, [f"python -m deformkit.tune, deformkit {deformkit.__version__}, {today}"])
        for name, (before, after) in times.items():
            print(f"  {name}: {1e3 * before:.3f} ms, {1e3 * after:.3f} tuned")
        print(f"  {ratio:.3f}x as fast: kept in {options.file}", flush=True)
    if not tuned:
        print(f"deformkit.tune: nothing that runs here matches '{options.pattern}'", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
