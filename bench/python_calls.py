#!/usr/bin/env python3
"""What a call costs from Python, over and above a kernel's work: one query on a map of 2 x 3 cells. Prints JSON, microseconds.

Run by run_bench.py in a process of its own, where the package is; or by hand, with PYTHONPATH=build/release/python.
"""

from __future__ import annotations

import json
import time
from typing import Any, Callable

import numpy as np

import deformkit


def best(call: Callable[..., Any], calls: int = 50, rounds: int = 2000) -> float:
    """The best average of a round: what a call takes when nothing gets in its way."""
    found = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        found = min(found, (time.perf_counter() - start) / calls)
    return found * 1e6


def measure() -> dict[str, float]:
    inputs = [
        np.ones((1, 6, 1, 8), np.float32),
        np.array([[2, 3]]),
        np.array([0]),
        np.full((1, 1, 1, 1, 1, 2), 0.5, np.float32),
        np.ones((1, 1, 1, 1, 1), np.float32),
    ]
    function = deformkit.multi_scale_deformable_attn
    found = {"numpy": best(lambda: function(*inputs))}
    try:
        import torch
    except ImportError:
        return found
    tensors = [torch.from_numpy(array) for array in inputs]
    with torch.no_grad():
        found["torch"] = best(lambda: function(*tensors))
    tensors[0].requires_grad_()
    found["torch, autograd"] = best(lambda: function(*tensors))
    output = function(*tensors)
    ones = torch.ones_like(output)
    found["torch, backward"] = best(lambda: output.backward(ones, retain_graph=True))
    return found


if __name__ == "__main__":
    print(json.dumps(measure()))
