"""Geometric kernel attention: what it is compared with, and how closely results must agree."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import peers
from native import Outputs, Problem

try:
    import torch
except ImportError:
    torch = None

# In the order of columns and bars; the first is what plots measure by.
PEERS = {"gather": "PyTorch's gather version"}


def gather_gka(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    """Keys from truncated and clamped locations, one gather of all samples' cells, then weights and a sum."""
    batch, _, heads, channels = value.shape
    _, queries, _, levels, points, _ = locations.shape
    height, width = (shapes[:, i].view(1, 1, 1, levels, 1) for i in (0, 1))
    cells = locations.detach().long()
    column = torch.minimum(cells[..., 0].clamp(min=0), width - 1)
    row = torch.minimum(cells[..., 1].clamp(min=0), height - 1)
    keys = (starts.view(1, 1, 1, levels, 1) + row * width + column).transpose(1, 2).reshape(batch, heads, -1, 1)
    sampled = value.transpose(1, 2).gather(2, keys.expand(-1, -1, -1, channels))
    sampled = sampled.view(batch, heads, queries, levels * points, channels)
    output = (sampled * weights.transpose(1, 2).reshape(batch, heads, queries, levels * points, 1)).sum(3)
    return output.transpose(1, 2).reshape(batch, queries, heads * channels)


def _peer_calls(
    problem: Problem, notice: Callable[[str], None], make_call: Callable[..., Any], copies: float
) -> dict[str, Callable[[], Outputs]]:
    """`copies`: of the sampled channels, that the gather version holds at a time."""
    if torch is None or not peers.fits_memory("gather", problem, copies * problem["value"].shape[-1], notice):
        return {}
    return {"gather": make_call(gather_gka, problem)}


class Forward:
    peers = PEERS

    @staticmethod
    def peer_calls(problem: Problem, notice: Callable[[str], None]) -> dict[str, Callable[[], Outputs]]:
        return _peer_calls(problem, notice, peers.forward_call, copies=3)

    @staticmethod
    def tolerances(problem: Problem) -> dict[str, float]:
        """What rounding in float32 may do to each output."""
        weights = problem["attention_weights"]
        terms = weights.shape[-2] * weights.shape[-1]
        sums = float(np.abs(weights).sum(axis=(-2, -1)).max())
        return {"output": float(np.finfo(np.float32).eps) * (terms + 2) * float(np.abs(problem["value"]).max()) * sums}


class Backward:
    peers = PEERS

    @staticmethod
    def peer_calls(problem: Problem, notice: Callable[[str], None]) -> dict[str, Callable[[], Outputs]]:
        return _peer_calls(problem, notice, peers.backward_call, copies=4)

    @staticmethod
    def tolerances(problem: Problem) -> dict[str, float]:
        value, weights = problem["value"], problem["attention_weights"]
        rows = problem["grad_output"].reshape(-1, value.shape[-1])
        epsilon, largest = float(np.finfo(np.float32).eps), float(np.abs(rows).max())
        # Cells of the border take what is clamped to them: samples of a row or column beside their own.
        cells = max(1, int(problem["spatial_shapes"].prod(-1).min()))
        per_cell = 16 + 16 * weights.shape[1] * weights.shape[-1] / cells
        return {
            "grad_value": epsilon * (2 + 4 * per_cell**0.5) * per_cell * float(np.abs(weights).max()) * largest,
            "grad_attention_weights": epsilon
            * (value.shape[-1] + 2)
            * float(np.abs(value).max())
            * float(np.abs(rows).sum(1).max()),
        }
