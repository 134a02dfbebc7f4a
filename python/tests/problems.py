"""Inputs for each operator, and what it has to make of them: an independent formulation in NumPy and float64."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

import deformkit
from deformkit import _da, _gka, _msda, _native

EPSILON = {name: 2.0**-mantissa_bits for name, mantissa_bits in _native.storage_types().items()}


def bilinear(maps: Any, x: Any, y: Any) -> Any:
    """maps [..., H, W, D] at x, y [..., N], in cells, zero outside: [..., N, D]."""
    height, width, _ = maps.shape[-3:]
    flat = maps.reshape(*maps.shape[:-3], height * width, maps.shape[-1])
    result = 0
    x0, y0 = np.floor(x), np.floor(y)
    for j in (0, 1):
        for i in (0, 1):
            column, row = x0 + i, y0 + j
            weight = (1 - np.abs(x - column)) * (1 - np.abs(y - row))
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            cell = np.where(inside, row * width + column, 0).astype(np.int64)
            result = result + np.take_along_axis(flat, cell[..., None], -2) * (weight * inside)[..., None]
    return result


def msda_reference(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    batch, _, heads, channels = value.shape
    queries, levels, points = locations.shape[1], locations.shape[3], locations.shape[4]
    output = np.zeros((batch, heads, queries, channels))
    for level in range(levels):
        height, width = map(int, shapes[level])
        first = int(starts[level])
        maps = value[:, first : first + height * width].transpose(0, 2, 1, 3).reshape(batch, heads, height, width, channels)
        for point in range(points):
            u, v = (locations[:, :, :, level, point, axis].transpose(0, 2, 1) for axis in (0, 1))
            weight = weights[:, :, :, level, point].transpose(0, 2, 1)
            output += weight[..., None] * bilinear(maps, u * width - 0.5, v * height - 0.5)
    return output.transpose(0, 2, 1, 3).reshape(batch, queries, heads * channels)


def msda_inputs(
    rng: np.random.Generator,
    batch: int = 2,
    queries: int = 11,
    heads: int = 3,
    channels: int = 16,
    levels: tuple[tuple[int, int], ...] = ((7, 5), (3, 9), (3, 3)),
    points: int = 4,
) -> dict[str, Any]:
    shapes = np.array(levels, np.int64)
    starts = np.concatenate([[0], np.cumsum(shapes.prod(1))[:-1]])
    samples = (batch, queries, heads, len(levels), points)
    return {
        "value": rng.standard_normal((batch, int(shapes.prod(1).sum()), heads, channels)),
        "value_spatial_shapes": shapes,
        "value_level_start_index": starts,
        # Some outside; none where the gradient jumps, since the middle of a cell is no binary fraction of an odd extent.
        "sampling_locations": rng.uniform(-0.2, 1.2, (*samples, 2)),
        "attention_weights": rng.uniform(0, 1, samples) / (len(levels) * points),
    }


def da_reference(maps: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    batch, _, channels = maps.shape
    anchors, points, cameras = locations.shape[1:4]
    groups = weights.shape[5]
    output = np.zeros((batch, anchors, groups, channels // groups))
    for camera, scale in np.ndindex(shapes.shape[:2]):
        height, width = map(int, shapes[camera, scale])
        first = int(starts[camera, scale])
        cells = maps[:, first : first + height * width].reshape(batch, height, width, channels)
        for point in range(points):
            u, v = locations[:, :, point, camera, 0], locations[:, :, point, camera, 1]
            inside = (u > 0) & (u < 1) & (v > 0) & (v < 1)
            sampled = bilinear(cells, u * width - 0.5, v * height - 0.5).reshape(output.shape)
            output += sampled * (weights[:, :, point, camera, scale] * inside[..., None])[..., None]
    return output.reshape(batch, anchors, channels)


def da_inputs(
    rng: np.random.Generator,
    batch: int = 2,
    queries: int = 11,
    channels: int = 6,
    groups: int = 3,
    cameras: int = 3,
    scales: tuple[tuple[int, int], ...] = ((7, 5), (3, 9)),
    points: int = 4,
) -> dict[str, Any]:
    shapes = np.array([scales] * cameras, np.int64)
    sizes = shapes.prod(-1).ravel()
    return {
        "feature_maps": rng.standard_normal((batch, int(sizes.sum()), groups * channels)),
        "spatial_shape": shapes,
        "scale_start_index": (np.cumsum(sizes) - sizes).reshape(cameras, -1),
        # A quarter of them inside.
        "sample_locations": rng.uniform(-0.5, 1.5, (batch, queries, points, cameras, 2)),
        "weight": rng.uniform(0, 1, (batch, queries, points, cameras, len(scales), groups)) / points,
    }


def gka_reference(value: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
    batch, _, heads, channels = value.shape
    output = np.zeros((batch, locations.shape[1], heads, channels))
    for level in range(len(shapes)):
        height, width = map(int, shapes[level])
        for point in range(locations.shape[4]):
            column = np.clip(np.trunc(locations[:, :, :, level, point, 0]), 0, width - 1)
            row = np.clip(np.trunc(locations[:, :, :, level, point, 1]), 0, height - 1)
            key = (int(starts[level]) + row * width + column).astype(np.int64)
            output += weights[:, :, :, level, point, None] * np.take_along_axis(value, key[..., None], 1)
    return output.reshape(*output.shape[:2], heads * channels)


def gka_inputs(rng: np.random.Generator, **sizes: Any) -> dict[str, Any]:
    """In cells, some beyond the border."""
    inputs = msda_inputs(rng, **sizes)
    inputs["sampling_locations"] = inputs["sampling_locations"] * 9
    return inputs


@dataclass
class Problem:
    operator: Any  # the package's description
    forward: Callable[..., Any]
    backward: Callable[..., Any]
    inputs_of: Callable[..., Any]
    reference: Callable[..., Any]  # in float64
    kernels: str  # what the names of the operator's kernels begin with
    cells: int = 9  # the largest map's extent: what a location's rounding is multiplied by

    @property
    def name(self) -> str:
        return self.operator.name

    def grad_output(self, inputs: list[Any], seed: int = 1) -> Any:
        shape = self.operator.output_shape(*inputs)
        return np.random.default_rng(seed).standard_normal(shape).astype(inputs[0].dtype)

    def inputs(self, dtype: str = "float32", seed: int = 0, **sizes: Any) -> list[Any]:
        """Arguments in their order, as NumPy arrays; floats of `dtype`."""
        made = self.inputs_of(np.random.default_rng(seed), **sizes)
        return [a if a.dtype.kind == "i" else a.astype(numpy_dtype(dtype)) for a in made.values()]

    def expected(self, inputs: list[Any]) -> Any:
        """From the rounded inputs: only what the operator itself rounds is tolerated."""
        return self.reference(*(a if a.dtype.kind == "i" else a.astype(np.float64) for a in map(np.asarray, inputs)))

    def tolerance(self, dtype: str, expected: Any) -> float:
        """Float32 arithmetic (float64 for float64) on sums of some dozens of terms; one rounding to the type of the result."""
        arithmetic = EPSILON["float64" if dtype == "float64" else "float32"]
        return (64 + 8 * self.cells) * arithmetic * max(1, np.abs(expected).max()) + EPSILON[dtype] * np.abs(expected).max()

    def check(self, result: Any, inputs: list[Any], dtype: str = "float32") -> None:
        expected = self.expected(inputs)
        assert np.abs(expected).max() > 0.1, "nothing to be wrong about"
        result = np.asarray(result).astype(np.float64)
        assert result.shape == expected.shape
        assert np.abs(result - expected).max() <= self.tolerance(dtype, expected)

    def check_gradients(self, gradients: Any, inputs: list[Any], grad_output: Any, dtype: str = "float32") -> None:
        """Along random directions: exact where the operator is linear, by central differences else."""
        arrays = [a if a.dtype.kind == "i" else a.astype(np.float64) for a in map(np.asarray, inputs)]
        weights = np.asarray(grad_output).astype(np.float64)
        rng = np.random.default_rng(7)
        for position, gradient in zip(self.operator.gradient_positions, gradients):
            if gradient is None:
                continue
            gradient = np.asarray(gradient).astype(np.float64)
            assert gradient.shape == arrays[position].shape
            for _ in range(3):
                direction = rng.standard_normal(gradient.shape)
                step = 1e-6

                losses = []
                for move in (step * direction, -step * direction):
                    moved = [*arrays[:position], arrays[position] + move, *arrays[position + 1 :]]
                    losses.append((self.reference(*moved) * weights).sum())
                expected = (losses[0] - losses[1]) / (2 * step)
                terms = np.abs(gradient * direction)
                assert terms.max() > 0.01, "nothing to be wrong about"
                error = abs((gradient * direction).sum() - expected)
                allowed = EPSILON[dtype] * terms.sum() + 1e-4 * (0 if dtype == "float64" else 1) * np.sqrt((terms**2).sum())
                assert error <= allowed + 1e-7 * terms.sum(), self.operator.arguments[position]


def numpy_dtype(name: str) -> Any:
    if hasattr(np, name):
        return np.dtype(name)
    import ml_dtypes

    return getattr(ml_dtypes, name)


PROBLEMS = [
    Problem(
        _msda.OPERATOR,
        deformkit.multi_scale_deformable_attn,
        deformkit.multi_scale_deformable_attn_backward,
        msda_inputs,
        msda_reference,
        "msda",
    ),
    Problem(
        _da.OPERATOR,
        deformkit.deformable_aggregation,
        deformkit.deformable_aggregation_backward,
        da_inputs,
        da_reference,
        "da",
    ),
    Problem(
        _gka.OPERATOR,
        deformkit.geometric_kernel_attention,
        deformkit.geometric_kernel_attention_backward,
        gka_inputs,
        gka_reference,
        "gka",
    ),
]
DTYPES = list(EPSILON)
