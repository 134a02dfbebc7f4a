"""Deformable aggregation: what it is compared with, and how closely results must agree."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import peers
from native import Outputs, Problem

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

# In the order of columns and bars; the first is what plots measure by.
PEERS = {"grid_sample": "PyTorch's grid_sample version"}


def grid_sample_da(feature_maps: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    """The formulation that model code falls back to without a compiled kernel: one grid_sample per scale, cameras in the batch,
    then weights and sums. Locations outside (0, 1) get weights of zero.

    `shapes` and `starts` hold Python integers, so that nothing is read back from tensors; all cameras have maps of the same
    sizes.
    """
    batch, anchors, points, cameras, _ = locations.shape
    scales, groups, channels = len(shapes[0]), weights.shape[-1], feature_maps.shape[2]
    inside = ((locations > 0) & (locations < 1)).all(-1)
    grid = (2 * locations - 1).permute(0, 3, 1, 2, 4).flatten(0, 1)  # grid_sample's coordinates run from -1 to 1
    sampled = []
    for scale in range(scales):
        height, width = shapes[0][scale]
        maps = [feature_maps[:, row[scale] : row[scale] + height * width] for row in starts]
        maps = torch.stack(maps, 1).flatten(0, 1).transpose(1, 2).reshape(batch * cameras, channels, height, width)
        sampled.append(F.grid_sample(maps, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
    sampled = torch.stack(sampled, -1).view(batch, cameras, groups, channels // groups, anchors, points, scales)
    visible = weights * inside[..., None, None]
    return torch.einsum("bngdaps,bapnsg->bagd", sampled, visible).reshape(batch, anchors, channels)


def _peer_calls(
    problem: Problem, notice: Callable[[str], None], make_call: Callable[..., Any], copies: float
) -> dict[str, Callable[[], Outputs]]:
    """`copies`: of the sampled channels, that the grid_sample version holds at a time."""
    if torch is None:
        return {}
    shapes, starts = problem["spatial_shape"].tolist(), problem["scale_start_index"].tolist()

    def grid_sample(feature_maps: Any, _shapes: Any, _starts: Any, locations: Any, weights: Any) -> Any:
        return grid_sample_da(feature_maps, shapes, starts, locations, weights)

    if not peers.fits_memory("grid_sample", problem, copies * problem["feature_maps"].shape[-1], notice):
        return {}
    return {"grid_sample": make_call(grid_sample, problem)}


def _visible(problem: Problem) -> tuple[float, int]:
    """Sum of the weights of an anchor's samples that take part, at most over anchors and groups, and how many there are."""
    inside = np.all((problem["sample_locations"] > 0) & (problem["sample_locations"] < 1), axis=-1)
    weights = np.abs(problem["weights"]) * inside[..., None, None]
    return float(weights.sum(axis=(2, 3, 4)).max()), int(inside.sum(axis=(2, 3)).max()) * problem["weights"].shape[4]


class Forward:
    peers = PEERS

    @staticmethod
    def peer_calls(problem: Problem, notice: Callable[[str], None]) -> dict[str, Callable[[], Outputs]]:
        return _peer_calls(problem, notice, peers.forward_call, copies=3)

    @staticmethod
    def tolerances(problem: Problem) -> dict[str, float]:
        """What rounding in float32 may do to each output."""
        sums, terms = _visible(problem)
        rounding = peers.rounding_of_samples(problem["spatial_shape"], terms)
        return {"output": rounding * float(np.abs(problem["feature_maps"]).max()) * sums}


class Backward:
    peers = PEERS

    @staticmethod
    def peer_calls(problem: Problem, notice: Callable[[str], None]) -> dict[str, Callable[[], Outputs]]:
        return _peer_calls(problem, notice, peers.backward_call, copies=5)

    @staticmethod
    def tolerances(problem: Problem) -> dict[str, float]:
        maps, weights = problem["feature_maps"], problem["weights"]
        channels = maps.shape[2]
        rows = problem["grad_output"].reshape(-1, channels)
        largest = float(np.abs(maps).max()) * float(np.abs(rows).sum(axis=1).max())
        dots = peers.rounding_of_samples(problem["spatial_shape"], channels) * largest
        # A cell's sum: bounded by what all samples of a batch item and camera bring to one cell of the smallest map.
        inside = np.all((problem["sample_locations"] > 0) & (problem["sample_locations"] < 1), axis=-1)
        smallest = max(1, int(problem["spatial_shape"].prod(-1).min()))
        on_a_cell = 16 + 8 * float(inside.sum(axis=(1, 2)).max()) / smallest
        rounding = peers.rounding_of_samples(problem["spatial_shape"], 4 * on_a_cell**0.5)
        cells = rounding * on_a_cell * float(np.abs(weights).max()) * float(np.abs(rows).max())
        scales = weights.shape[4]
        return {
            "grad_feature_maps": cells,
            "grad_sample_locations": 2 * scales * int(problem["spatial_shape"].max()) * float(np.abs(weights).max()) * dots,
            "grad_weights": dots,
        }
