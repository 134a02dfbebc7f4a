"""What PyTorch users would otherwise run on a CPU, as far as it is the same for all operators. PyTorch is optional: without it
there are no peers."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from native import Outputs, Problem

try:
    import torch
except ImportError:
    torch = None


def versions() -> dict[str, str]:
    """Of what is installed."""
    if torch is None:
        return {}
    from importlib.metadata import PackageNotFoundError, version

    found = {"torch": torch.__version__}
    try:
        found["torch-ms-deform-attn"] = version("torch-ms-deform-attn")
    except PackageNotFoundError:
        pass
    return found


def set_num_threads(count: int) -> None:
    if torch is not None:
        torch.set_num_threads(count)


def _available_memory() -> int | None:
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None


def fits_memory(peer: str, problem: Problem, floats: float, notice: Callable[[str], None]) -> bool:
    """Whether so many floats for each sample can be had and leave room; if not, `notice` is told."""
    needed, available = floats * problem.workload.samples * 4, _available_memory()
    fits = available is None or needed <= 0.8 * available
    if not fits:
        notice(f"{peer} left out of {problem.pass_.name}/{problem.workload.name}: it takes {needed / 2**30:.1f} GiB")
    return fits


def rounding_of_samples(shapes: Any, terms: float) -> float:
    """Relative: locations round by up to an epsilon of the map's size in cells, and a cell's worth of location changes a sample
    by up to twice the largest value; a sum adds its own roundings."""
    return float(np.finfo(np.float32).eps) * (4 * int(shapes.max()) + terms)


def forward_call(function: Callable[..., Any], problem: Problem, output: str = "output") -> Callable[[], Outputs]:
    """function(*inputs as tensors) -> tensor, without autograd."""
    inputs = [torch.from_numpy(array) for array in problem.inputs]

    def call() -> Outputs:
        with torch.inference_mode():
            return {output: function(*inputs).numpy()}

    return call


def backward_call(function: Callable[..., Any], problem: Problem) -> Callable[[], Outputs]:
    """The gradients of function(*inputs), for the outputs grad_<name of an input>, at grad_output; the graph is built here."""
    tensors = {a.name: torch.from_numpy(problem[a.name]) for a in problem.workload.arguments if a.kind != "output"}
    grad_output = tensors.pop("grad_output")
    gradients = list(problem.outputs)
    leaves = [tensors[name.removeprefix("grad_")].requires_grad_() for name in gradients]
    with torch.enable_grad():
        output = function(*tensors.values())

    def call() -> Outputs:
        found = torch.autograd.grad(output, leaves, grad_output.view_as(output), retain_graph=True)
        return {name: gradient.numpy() for name, gradient in zip(gradients, found)}

    return call
