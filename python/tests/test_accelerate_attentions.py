"""What accelerate() makes of the arithmetic around the sampling."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import deformkit  # noqa: E402

LEVELS = [(6, 5), (3, 4)]
CELLS, M, D, P = 42, 4, 8, 3


class Attention(torch.nn.Module):
    """As Deformable DETR's authors have it."""

    def __init__(self, keeps: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.n_heads, self.n_levels, self.n_points, self.keeps = M, len(LEVELS), P, keeps
        self.sampling_offsets = torch.nn.Linear(M * D, M * len(LEVELS) * P * 2)
        self.attention_weights = torch.nn.Linear(M * D, M * len(LEVELS) * P)
        self.value_proj = torch.nn.Linear(M * D, M * D)
        self.output_proj = torch.nn.Linear(M * D, M * D)

    def forward(
        self,
        query: Any,
        reference_points: Any,
        input_flatten: Any,
        input_spatial_shapes: Any,
        input_level_start_index: Any,
        input_padding_mask: Any = None,
    ) -> Any:
        batch, queries = query.shape[:2]
        value = self.value_proj(input_flatten)
        if input_padding_mask is not None:
            mask = ~input_padding_mask if self.keeps else input_padding_mask
            value = value.masked_fill(mask[..., None], 0.0)
        offsets = self.sampling_offsets(query).view(batch, queries, M, len(LEVELS), P, 2)
        weights = self.attention_weights(query).view(batch, queries, M, -1).softmax(-1).view(offsets.shape[:-1])
        if reference_points.shape[-1] == 2:
            offsets = offsets / input_spatial_shapes.flip(-1)[:, None]
            locations = reference_points[:, :, None, :, None] + offsets
        else:
            offsets = offsets / P * reference_points[:, :, None, :, None, 2:] * 0.5
            locations = reference_points[:, :, None, :, None, :2] + offsets
        value = value.view(batch, -1, M, D)
        return self.output_proj(ms_deform_attn_core_pytorch(value, input_spatial_shapes, locations, weights))


def ms_deform_attn_core_pytorch(value: Any, value_spatial_shapes: Any, sampling_locations: Any, attention_weights: Any) -> Any:
    starts = value_spatial_shapes.prod(1).cumsum(0) - value_spatial_shapes.prod(1)
    return deformkit.multi_scale_deformable_attn(value, value_spatial_shapes, starts, sampling_locations, attention_weights)


def inputs(coordinates: int = 2, levels: int = 2, masked: bool = False) -> list[Any]:
    torch.manual_seed(1)
    shapes = torch.tensor(LEVELS)
    tensors = [torch.randn(2, 7, M * D), torch.rand(2, 7, levels, coordinates), torch.randn(2, CELLS, M * D)]
    mask = torch.rand(2, CELLS) < 0.3 if masked else torch.zeros(2, CELLS, dtype=torch.bool)
    return [*(tensor.requires_grad_() for tensor in tensors), shapes, shapes.prod(1).cumsum(0) - shapes.prod(1), mask]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("coordinates", [2, 4])
@pytest.mark.parametrize("levels", [1, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_same_values_and_gradients(keeps: bool, coordinates: int, levels: int, masked: bool) -> None:
    module, arguments = Attention(keeps), inputs(coordinates, levels, masked)

    def run() -> Any:
        output = module(*arguments)
        return output.detach(), *torch.autograd.grad(output.square().sum(), [*arguments[:3], *module.parameters()])

    expected = run()
    with deformkit.accelerate(module) as done:
        assert done.rewritten == [""] and "locations and masks" in str(done)
        for one, other in zip(run(), expected):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-6 * other.abs().max().item())
    assert all(torch.equal(one, other) for one, other in zip(run(), expected))


def test_copies_are_rewritten() -> None:
    module, arguments = Attention(), inputs(masked=True)
    expected = module(*arguments)
    deformkit.accelerate(module)
    for kept in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(kept(*arguments), expected, rtol=1e-4, atol=1e-5)
        assert vars(kept)["forward"].function is not vars(module)["forward"].function
        with torch.profiler.profile() as profile:
            kept(*arguments)
        assert any(event.key == "aten::addcmul" for event in profile.key_averages())


def test_what_computes_something_else_is_not_rewritten() -> None:
    class Clamped(Attention):
        def forward(self, *arguments: Any) -> Any:
            return super().forward(*arguments).clamp(-1, 1)

    class Shifted(Attention):
        def forward(
            self,
            query: Any,
            reference_points: Any,
            input_flatten: Any,
            input_spatial_shapes: Any,
            input_level_start_index: Any,
            input_padding_mask: Any = None,
        ) -> Any:
            output = ms_deform_attn_core_pytorch(
                self.value_proj(input_flatten).view(2, CELLS, M, D),
                input_spatial_shapes,
                (reference_points[:, :, None, :, None, :2] + torch.zeros(2, 7, M, len(LEVELS), P, 2)),
                torch.ones(2, 7, M, len(LEVELS), P),
            )
            return self.output_proj(output)

    hooked = Attention()
    hooked.value_proj.register_forward_hook(lambda *arguments: None)
    for module in (Clamped(), Shifted(), hooked):
        expected = module(*inputs())
        done = deformkit.accelerate(module)
        assert not done.rewritten
        torch.testing.assert_close(module(*inputs()), expected)


def test_other_arguments_go_to_the_modules_own_forward() -> None:
    """Under autocast, in another type, and wrong ones."""
    module, arguments = Attention(), inputs()
    with torch.autocast("cpu", torch.bfloat16):
        expected = module(*arguments)
    double = copy.deepcopy(module).double()
    deformkit.accelerate(module)
    deformkit.accelerate(double)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module(*arguments), expected)
    found = double(*(tensor.double() if tensor.is_floating_point() else tensor for tensor in arguments))
    torch.testing.assert_close(found.float(), module(*arguments), rtol=1e-4, atol=1e-5)
    with pytest.raises((RuntimeError, ValueError)):
        module(arguments[0], arguments[1][:, :3], *arguments[2:])
    with pytest.raises(TypeError):
        module(*arguments, 1)
