"""Deformable aggregation: what it is compared with, and how closely results must agree."""

import numpy as np

import peers

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

# In the order of columns and bars; the first is what plots measure by.
PEERS = {"grid_sample": "PyTorch's grid_sample version"}


def grid_sample_da(feature_maps, shapes, starts, locations, weights):
    """The formulation that model code falls back to without a compiled kernel: one grid_sample per scale, cameras in the batch, then
    weights and sums. Locations outside (0, 1) get weights of zero.

    `shapes` and `starts` hold Python integers, so that nothing is read back from tensors; all cameras have maps of the same sizes.
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


def _peer_calls(problem, notice, make_call, copies):
    """`copies`: of the sampled channels, that the grid_sample version holds at a time."""
    if torch is None:
        return {}
    shapes, starts = problem["spatial_shape"].tolist(), problem["scale_start_index"].tolist()

    def grid_sample(feature_maps, _shapes, _starts, locations, weights):
        return grid_sample_da(feature_maps, shapes, starts, locations, weights)

    needed = copies * problem.workload.samples * problem["feature_maps"].shape[-1] * 4
    if not peers.fits_memory(needed):
        notice(f"grid_sample left out of {problem.pass_.name}/{problem.workload.name}: it takes {needed / 2**30:.1f} GiB")
        return {}
    return {"grid_sample": make_call(grid_sample, problem)}


def _visible(problem):
    """Sum of the weights of an anchor's samples that take part, at most over anchors and groups, and how many there are."""
    inside = ((problem["sample_locations"] > 0) & (problem["sample_locations"] < 1)).all(-1)
    weights = np.abs(problem["weights"]) * inside[..., None, None]
    return float(weights.sum(axis=(2, 3, 4)).max()), int(inside.sum(axis=(2, 3)).max()) * problem["weights"].shape[4]


def _rounding_of_samples(problem, terms):
    """Relative: locations round by up to an epsilon of the map's size in cells, and a cell's worth of location changes a sample by
    up to twice the largest value; a sum adds its own roundings."""
    return float(np.finfo(np.float32).eps) * (4 * int(problem["spatial_shape"].max()) + terms)


class Forward:
    peers = PEERS

    @staticmethod
    def peer_calls(problem, notice):
        return _peer_calls(problem, notice, peers.forward_call, copies=3)

    @staticmethod
    def tolerances(problem):
        """What rounding in float32 may do to each output."""
        sums, terms = _visible(problem)
        return {"output": _rounding_of_samples(problem, terms) * float(np.abs(problem["feature_maps"]).max()) * sums}

    @staticmethod
    def ambiguous(problem):
        """Output -> mask of the numbers that rounding may change by more than that."""
        return {}


class Backward:
    peers = PEERS

    @staticmethod
    def peer_calls(problem, notice):
        return _peer_calls(problem, notice, peers.backward_call, copies=5)

    @staticmethod
    def tolerances(problem):
        maps, weights = problem["feature_maps"], problem["weights"]
        channels = maps.shape[2]
        rows = problem["grad_output"].reshape(-1, channels)
        largest = float(np.abs(maps).max()) * float(np.abs(rows).sum(axis=1).max())
        dots = _rounding_of_samples(problem, channels) * largest
        # A cell's sum: bounded by what all samples of a batch item and camera bring to one cell of the smallest map.
        inside = ((problem["sample_locations"] > 0) & (problem["sample_locations"] < 1)).all(-1)
        smallest = max(1, int(problem["spatial_shape"].prod(-1).min()))
        on_a_cell = 16 + 8 * float(inside.sum(axis=(1, 2)).max()) / smallest
        cells = _rounding_of_samples(problem, 4 * on_a_cell**0.5) * on_a_cell * float(np.abs(weights).max()) * float(np.abs(rows).max())
        scales = weights.shape[4]
        return {
            "grad_feature_maps": cells,
            "grad_sample_locations": 2 * scales * int(problem["spatial_shape"].max()) * float(np.abs(weights).max()) * dots,
            "grad_weights": dots,
        }

    @staticmethod
    def ambiguous(problem):
        """The gradient of a location jumps where a sample moves from one cell to the next, on any scale."""
        locations, shapes = problem["sample_locations"], problem["spatial_shape"]
        near = np.zeros(locations.shape[:-1], dtype=bool)
        for scale in range(shapes.shape[1]):
            places = locations * shapes[:, scale, ::-1].astype(np.float32) - np.float32(0.5)
            near |= (np.abs(places - np.rint(places)) <= 8 * np.finfo(np.float32).eps * int(shapes.max())).any(axis=-1)
        return {"grad_sample_locations": np.broadcast_to(near[..., None], locations.shape)}
