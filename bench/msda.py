"""MSDA: what it is compared with, and how closely results must agree."""

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

try:
    from torch_ms_deform_attn.functional import ms_deform_attn
except ImportError:
    ms_deform_attn = None

# In the order of columns and bars; the first is what plots measure by.
PEERS = {
    "grid_sample": "PyTorch's grid_sample version",
    "torch_ms_deform_attn": "torch-ms-deform-attn",
}
HAND = {"hand_avx512": "hand-written AVX-512"}


def grid_sample_msda(value: Any, levels: Any, sampling_locations: Any, attention_weights: Any) -> Any:
    """The formulation that model code falls back to without a compiled kernel: one grid_sample per level, heads in the batch.

    `levels` holds Python integers, so that nothing is read back from tensors.
    """
    batch, _, heads, channels = value.shape
    queries = sampling_locations.shape[1]
    grids = 2 * sampling_locations - 1  # grid_sample's coordinates run from -1 to 1

    sampled = []
    maps = value.split([height * width for height, width in levels], dim=1)
    for level, (height, width) in enumerate(levels):
        feature_map = maps[level].flatten(2).transpose(1, 2).reshape(batch * heads, channels, height, width)
        grid = grids[:, :, :, level].transpose(1, 2).flatten(0, 1)
        sampled.append(F.grid_sample(feature_map, grid, mode="bilinear", padding_mode="zeros", align_corners=False))

    weights = attention_weights.transpose(1, 2).reshape(batch * heads, 1, queries, -1)
    output = (torch.stack(sampled, dim=-2).flatten(-2) * weights).sum(-1)
    return output.view(batch, heads * channels, queries).transpose(1, 2).contiguous()


def _peer_calls(
    problem: Problem, notice: Callable[[str], None], make_call: Callable[..., Any], copies: float
) -> dict[str, Callable[[], Outputs]]:
    """`copies`: of the sampled channels of all levels, that the grid_sample version holds at a time."""
    if torch is None:
        return {}
    levels = problem["spatial_shapes"].tolist()
    found = {}

    def grid_sample(value: Any, _shapes: Any, _starts: Any, locations: Any, weights: Any) -> Any:
        return grid_sample_msda(value, levels, locations, weights)

    if peers.fits_memory("grid_sample", problem, copies * problem["value"].shape[-1], notice):
        found["grid_sample"] = make_call(grid_sample, problem)
    if ms_deform_attn is not None:
        found["torch_ms_deform_attn"] = make_call(ms_deform_attn, problem)
    return found


class Forward:
    peers = {**PEERS, **HAND}

    @staticmethod
    def peer_calls(problem: Problem, notice: Callable[[str], None]) -> dict[str, Callable[[], Outputs]]:
        # Sampled, stacked and weighted; a part of them is freed in between.
        return _peer_calls(problem, notice, peers.forward_call, copies=3.5)

    @staticmethod
    def tolerances(problem: Problem) -> dict[str, Any]:
        """What rounding in float32 may do to each output: a number, or an array that goes with it."""
        weights = problem["attention_weights"]
        terms = weights.shape[-2] * weights.shape[-1]
        sums = float(np.abs(weights).sum(axis=(-2, -1)).max())
        rounding = peers.rounding_of_samples(problem["spatial_shapes"], terms)
        return {"output": rounding * float(np.abs(problem["value"]).max()) * sums}


class Backward:
    peers = PEERS

    @staticmethod
    def peer_calls(problem: Problem, notice: Callable[[str], None]) -> dict[str, Callable[[], Outputs]]:
        # The graph holds the stacked samples; backward adds the gradients of the weighted, of the stacked and of their pieces.
        return _peer_calls(problem, notice, peers.backward_call, copies=5)

    @staticmethod
    def tolerances(problem: Problem) -> dict[str, Any]:
        value, weights = problem["value"], problem["attention_weights"]
        shapes = problem["spatial_shapes"]
        channels = value.shape[-1]
        rows = problem["grad_output"].reshape(-1, channels)
        # A sample's dot product with its row of grad_output.
        rounding = peers.rounding_of_samples(shapes, channels)
        dots = rounding * float(np.abs(value).max()) * float(np.abs(rows).sum(axis=1).max())
        # A cell's sum: corners' weights are off by an epsilon of the map's size, and n roundings grow with n's root.
        cells = 0.0
        for level, (height, width) in enumerate(shapes.tolist()):
            mass, count = _most_on_a_cell(problem, level, height, width)
            cells = max(cells, (4 * max(height, width) + 4 * count**0.5) * mass)
        # A location's gradient jumps where its sample moves from one cell to the next: what is too near has any value.
        places = problem["sampling_locations"] * shapes[:, None, ::-1].astype(np.float32) - np.float32(0.5)
        near = np.abs(places - np.rint(places)) <= 8 * np.finfo(np.float32).eps * int(shapes.max())
        slopes = np.float32(2 * dots) * np.abs(weights)[..., None] * shapes[:, None, ::-1].astype(np.float32)
        return {
            "grad_value": float(np.finfo(np.float32).eps) * cells * float(np.abs(rows).max()),
            "grad_sampling_locations": np.where(near.any(axis=-1, keepdims=True), np.float32(np.inf), slopes),
            "grad_attention_weights": dots,
        }


def _most_on_a_cell(problem: Problem, level: int, height: int, width: int) -> tuple[float, int]:
    """Bounds on the weights that a cell of this level gathers, and on their number."""
    locations = problem["sampling_locations"][:, :, :, level]
    weights = np.abs(problem["attention_weights"][:, :, :, level])
    columns, rows = (np.floor(locations[..., i] * extent - 0.5).astype(np.int64) for i, extent in enumerate((width, height)))
    inside = (columns >= -1) & (columns < width) & (rows >= -1) & (rows < height)
    batch, _, heads, _ = weights.shape
    slabs = np.arange(batch)[:, None, None, None] * heads + np.arange(heads)[:, None]
    keys = ((slabs * (height + 1) + rows + 1) * (width + 1) + columns + 1)[inside]
    # A cell is a corner of the samples of four such places.
    return 4 * float(np.bincount(keys, weights[inside]).max()), 4 * int(np.bincount(keys).max())
