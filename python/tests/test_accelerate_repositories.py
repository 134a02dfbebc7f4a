"""accelerate() on attentions in the forms that the models' own repositories have them in: small modules of ours, which do what
makes each form another."""

from __future__ import annotations

import functools
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import deformkit  # noqa: E402

B, Q, M, D, P = 2, 7, 4, 8, 3
LEVELS = [(6, 5), (3, 4)]
L, K = len(LEVELS), sum(height * width for height, width in LEVELS)


def sampled(value: Any, shapes: Any, locations: Any, weights: Any, points: Any) -> Any:
    """[B, K, M, D], [B, Q, M, N, 2] and [B, Q, M, N], level by level: what all functions below compute."""
    first, result = 0, torch.zeros(())
    for (height, width), xy, weight in zip(shapes, locations.split(list(points), 3), weights.split(list(points), 3)):
        maps = value[:, first : first + height * width].permute(0, 2, 3, 1).reshape(-1, value.shape[3], height, width)
        first += height * width
        taken = torch.nn.functional.grid_sample(maps, 2 * xy.transpose(1, 2).flatten(0, 1) - 1, align_corners=False)
        result = result + (taken * weight.transpose(1, 2).flatten(0, 1)[:, None]).sum(-1)
    return result.unflatten(0, (-1, value.shape[2])).flatten(1, 2).transpose(1, 2)


def deformable_attention_core_func(value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any) -> Any:
    counts = [sampling_locations.shape[4]] * len(value_spatial_shapes)
    return sampled(value, value_spatial_shapes, sampling_locations.flatten(3, 4), attention_weights.flatten(3), counts)


def deformable_attention_core_func_v2(
    value: Any,
    value_spatial_shapes: Any,
    sampling_locations: Any,
    attention_weights: Any,
    num_points_list: Any,
    method: str = "default",
) -> Any:
    if isinstance(value, (list, tuple)):  # D-FINE
        value = torch.cat(value, -1).permute(0, 3, 1, 2)
    if method == "discrete":
        sampling_locations = (sampling_locations * 4).round() / 4
    return sampled(value, value_spatial_shapes, sampling_locations, attention_weights, num_points_list)


def multi_scale_deformable_attn_pytorch(
    value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any
) -> Any:
    return deformable_attention_core_func(value, value_spatial_shapes, sampling_locations, attention_weights)


class MultiScaleDeformableAttnFunction_fp32(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        value: Any,
        value_spatial_shapes: Any,
        value_level_start_index: Any,
        sampling_locations: Any,
        attention_weights: Any,
        im2col_step: Any,
    ) -> Any:
        raise RuntimeError("needs a GPU")


class Attention(torch.nn.Module):
    """What all have; `core` differs."""

    def __init__(self, points: Any = (P, P)) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.points = list(points)
        self.sampling_offsets = torch.nn.Linear(M * D, M * sum(points) * 2)
        self.attention_weights = torch.nn.Linear(M * D, M * sum(points))

    def forward(self, query: Any, value: Any) -> Any:
        locations = 0.5 + 0.3 * self.sampling_offsets(query).view(B, Q, M, -1, 2)
        weights = self.attention_weights(query).view(B, Q, M, -1).softmax(-1)
        return self.core(value.view(B, K, M, D), locations, weights)

    def core(self, value: Any, locations: Any, weights: Any) -> Any:
        raise NotImplementedError


class RTDetr(Attention):
    def __init__(self) -> None:
        super().__init__()
        self.ms_deformable_attn_core = deformable_attention_core_func

    def core(self, value: Any, locations: Any, weights: Any) -> Any:
        return self.ms_deformable_attn_core(value, LEVELS, locations.unflatten(3, (L, P)), weights.unflatten(3, (L, P)))


class RTDetrV2(Attention):
    def __init__(self, method: str = "default", points: Any = (P, P)) -> None:
        super().__init__(points)
        self.method = method
        self.ms_deformable_attn_core = functools.partial(deformable_attention_core_func_v2, method=method)

    def core(self, value: Any, locations: Any, weights: Any) -> Any:
        return self.ms_deformable_attn_core(value, LEVELS, locations, weights, self.points)


class DFine(RTDetrV2):
    def core(self, value: Any, locations: Any, weights: Any) -> Any:
        maps = value.permute(0, 2, 3, 1).split([height * width for height, width in LEVELS], -1)
        return self.ms_deformable_attn_core(maps, LEVELS, locations, weights, self.points)


class OnGpuOrNot(Attention):
    """detrex, GroundingDINO, BEVFormer: a function for GPUs, called by another name, and one for others."""

    def forward(self, query: Any, value: Any) -> Any:
        locations = 0.5 + 0.3 * self.sampling_offsets(query).view(B, Q, M, L, P, 2)
        weights = self.attention_weights(query).view(B, Q, M, L * P).softmax(-1).view(B, Q, M, L, P)
        value, shapes = value.view(B, K, M, D), torch.tensor(LEVELS)
        if value.is_cuda:
            function = MultiScaleDeformableAttnFunction_fp32
            return function.apply(value, shapes, torch.tensor([0, LEVELS[0][0] * LEVELS[0][1]]), locations, weights, 64)
        return multi_scale_deformable_attn_pytorch(value, shapes, locations, weights)


MODULES = [RTDetr, RTDetrV2, DFine, lambda: RTDetrV2(points=(2, 4)), lambda: DFine(points=(6, 3)), OnGpuOrNot]


@pytest.mark.parametrize("make", MODULES, ids=["RTDetr", "RTDetrV2", "DFine", "RTDetrV2-ragged", "DFine-ragged", "OnGpuOrNot"])
@pytest.mark.filterwarnings("error")
def test_same_result(make: Any) -> None:
    model = make()
    inputs = [torch.randn(B, Q, M * D, requires_grad=True), torch.randn(B, K, M * D, requires_grad=True)]

    def run() -> Any:
        output = model(*inputs)
        return output.detach(), *torch.autograd.grad(output.square().sum(), [*inputs, *model.parameters()])

    expected = run()
    done = deformkit.accelerate(model)
    assert done.replaced and not done.left_alone
    deformkit.set_target("sse41")
    found = run()
    assert deformkit.last_variant().startswith("msda_backward") and deformkit.last_variant().endswith("_sse41")
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5 * other.abs().max().item())
    done.undo()
    assert torch.equal(run()[0], expected[0])


def test_nearest_cells_are_left_alone() -> None:
    done = deformkit.accelerate(RTDetrV2("discrete"))
    assert not done.replaced and "nearest cell" in str(done)
