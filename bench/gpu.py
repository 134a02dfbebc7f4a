#!/usr/bin/env python3
"""deformkit's PyTorch operators on a GPU, beside what models would run there without it. Part of `./run bench --gpu`
where PyTorch finds CUDA; `--device cpu` runs the same on the CPU, to try the program itself.

usage: PYTHONPATH=build/release/python python bench/gpu.py --build-dir build/release [--filter REGEX] [--batch N...] [--rounds N]

Times are of a device's clock, the best of some rounds of as many calls as take a few milliseconds. The share is that of the
bandwidth which a copy in the device's memory reaches, with every argument counted once.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any, Callable

import da
import gka
import msda
import native
import torch

import deformkit

Function = Callable[..., Any]
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def _of_packages(shapes: Any) -> dict[str, Function]:
    """Of PyPI, where they are installed."""
    found: dict[str, Function] = {}
    try:
        from torch_ms_deform_attn.functional import ms_deform_attn

        found["torch_ms_deform_attn"] = ms_deform_attn
    except ImportError:
        pass
    try:
        from msda_triton import multiscale_deformable_attention
    except ImportError:
        return found
    found["msda_triton"] = lambda value, _s, _t, locations, weights: multiscale_deformable_attention(
        value, shapes, locations, weights, "zeros", False
    )
    return found


def competitors(problem: native.Problem, device: torch.device) -> dict[str, Function]:
    """By name, the first is deformkit's, the second what others are compared with: of the operator's inputs in their order."""
    operator = problem.pass_.name.split("_")[0]
    if operator == "msda":
        levels = problem["spatial_shapes"].tolist()
        return {
            "deformkit": deformkit.multi_scale_deformable_attn,
            "grid_sample": lambda value, _s, _t, locations, weights: msda.grid_sample_msda(value, levels, locations, weights),
            **_of_packages(torch.from_numpy(problem["spatial_shapes"]).to(device)),
        }
    if operator == "da":
        shapes, starts = problem["spatial_shape"].tolist(), problem["scale_start_index"].tolist()
        return {
            "deformkit": deformkit.deformable_aggregation,
            "grid_sample": lambda maps, _s, _t, locations, weights: da.grid_sample_da(maps, shapes, starts, locations, weights),
        }
    return {"deformkit": deformkit.geometric_kernel_attention, "gather": gka.gather_gka}


def tensors_of(problem: native.Problem, batch: int, dtype: torch.dtype, device: torch.device) -> dict[str, Any]:
    """Inputs by name: the workload's, `batch` times."""
    found = {}
    for argument in problem.workload.arguments:
        if argument.kind == "output":
            continue
        tensor = torch.from_numpy(problem[argument.name].copy())
        if argument.kind == "input":
            tensor = torch.cat([tensor] * batch).to(dtype)
        found[argument.name] = tensor.to(device)
    return found


def call_of(function: Function, tensors: dict[str, Any], gradients: list[str]) -> Callable[[], list[Any]]:
    """The forward, or the gradients over a graph that is there already."""
    inputs = {name: tensor for name, tensor in tensors.items() if name != "grad_output"}
    if not gradients:

        def forward() -> list[Any]:
            with torch.no_grad():
                return [function(*inputs.values())]

        return forward
    leaves = [inputs[name].detach().requires_grad_() for name in gradients]
    output = function(*{**inputs, **dict(zip(gradients, leaves))}.values())
    grad_output = tensors["grad_output"].view_as(output).to(output.dtype)
    return lambda: list(torch.autograd.grad(output, leaves, grad_output, retain_graph=True))


class Clock:
    def __init__(self, device: torch.device, rounds: int) -> None:
        self._device, self._rounds = device, rounds

    def _time(self, call: Callable[[], Any], count: int) -> float:
        """Seconds of each of so many calls."""
        if self._device.type == "cpu":
            start = time.perf_counter()
            for _ in range(count):
                call()
            return (time.perf_counter() - start) / count
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(count):
            call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / count

    def best(self, calls: dict[str, Callable[[], Any]]) -> dict[str, float]:
        """In turn, so that all meet the same clock rates."""
        counts = {}
        for name, call in calls.items():
            call()
            counts[name] = max(1, int(5e-3 / max(self._time(call, 1), 1e-7)))
        found = dict.fromkeys(calls, float("inf"))
        for _ in range(self._rounds):
            for name, call in calls.items():
                found[name] = min(found[name], self._time(call, counts[name]))
        return found

    def bandwidth(self) -> float:
        """Bytes a second of a copy, read and written."""
        source = torch.empty(1 << (28 if self._device.type == "cuda" else 24), device=self._device)
        target = torch.empty_like(source)
        return 2 * source.nbytes / self.best({"copy": lambda: target.copy_(source)})["copy"]


def difference(found: list[Any], expected: list[Any]) -> float:
    """The largest, as a share of the largest number; NaN if there is one."""
    shares = [(a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-30) for a, b in zip(found, expected)]
    return float(torch.stack(shares).max())


def measure(problem: native.Problem, batch: int, type_name: str, clock: Clock, device: torch.device, bandwidth: float) -> str:
    tensors = tensors_of(problem, batch, TYPES[type_name], device)
    gradients = [name.removeprefix("grad_") for name in problem.outputs if name.startswith("grad_")]
    functions = competitors(problem, device)
    # In float32 on the same numbers: on a CPU, PyTorch's grid_sample makes NaN of 16 bits.
    wide = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    expected = call_of(list(functions.values())[1], wide, gradients)()
    calls = {}
    for name, function in functions.items():
        try:
            calls[name] = call_of(function, tensors, gradients)
            results = calls[name]()
        except (RuntimeError, TypeError, NotImplementedError) as error:
            if name == "deformkit":
                raise
            print(f"{name} left out of {problem.pass_.name}_{type_name}/{problem.workload.name}: {error}", file=sys.stderr)
            calls.pop(name, None)
            continue
        if name == "deformkit":
            ours = results
    times = clock.best(calls)
    own = times.pop("deformkit")
    moved = sum(tensor.nbytes for tensor in [*tensors.values(), *ours])
    ratios = ", ".join(f"{name} {seconds / own:.2f}x" for name, seconds in times.items())
    row = [problem.pass_.name, type_name, problem.workload.name, str(batch), f"{own * 1e3:.3f}", f"{moved / own / bandwidth:.0%}"]
    return f"| {' | '.join([*row, ratios, f'{difference(ours, expected):.1e}'])} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build-dir", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--filter", default="/(detr_encoder|detr_decoder_boxes|sparse4d_v3|gka_example)$")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("gpu.py: PyTorch finds no CUDA device here", file=sys.stderr)
        return 1
    _, library = native.load(arguments.build_dir)
    clock = Clock(device, arguments.rounds)
    bandwidth = clock.bandwidth()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, PyTorch {torch.__version__}, a copy moves {bandwidth / 1e9:.0f} GB/s\n")
    print("| pass | type | workload | batch | ms | share of a copy's bandwidth | the others' time | difference |")
    print("|---|---|---|---|---|---|---|---|")
    for pass_ in library.passes:
        for workload in pass_.workloads:
            for type_name in TYPES:
                if re.search(arguments.filter, f"{pass_.name}_{type_name}/{workload.name}"):
                    problem = native.Problem(library, pass_, workload)
                    for batch in arguments.batch:
                        print(measure(problem, batch, type_name, clock, device, bandwidth), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
