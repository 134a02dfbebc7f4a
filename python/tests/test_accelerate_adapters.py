"""accelerate() on modules that call the functions of MapTR, Sparse4D and msda-triton, as their models do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from problems import PROBLEMS  # noqa: E402
from test_torch import tensors_of  # noqa: E402

import deformkit  # noqa: E402

MSDA, DA, GKA = (next(problem for problem in PROBLEMS if problem.kernels == kernels) for kernels in ("msda", "da", "gka"))


class GeometricKernelAttentionFunc(torch.autograd.Function):
    """Like the original without its CUDA extension."""

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
        raise RuntimeError("not compiled with GPU support")


def deformable_aggregation_function(
    feature_maps: Any, spatial_shape: Any, scale_start_index: Any, sampling_location: Any, weights: Any
) -> Any:
    raise RuntimeError("not compiled with GPU support")


DAF = deformable_aggregation_function


def multiscale_deformable_attention(
    img: Any, img_shapes: Any, sampling_points: Any, attention_weights: Any, padding_mode: Any, align_corners: Any
) -> Any:
    raise RuntimeError("not compiled with GPU support")


class GeometryKernelAttention(torch.nn.Module):
    def forward(self, *tensors: Any) -> Any:
        return GeometricKernelAttentionFunc.apply(*tensors, 64)


class DeformableFeatureAggregation(torch.nn.Module):
    def forward(self, *tensors: Any) -> Any:
        return DAF(*tensors)


class MultiscaleDeformableAttention(torch.nn.Module):
    def forward(self, value: Any, shapes: Any, starts: Any, locations: Any, weights: Any) -> Any:
        return multiscale_deformable_attention(value, shapes, locations, weights, "zeros", False).flatten(2)


@pytest.mark.parametrize(
    ("module", "own"),
    [(GeometryKernelAttention(), GKA), (DeformableFeatureAggregation(), DA), (MultiscaleDeformableAttention(), MSDA)],
)
def test_adapters_are_found(module: Any, own: Any) -> None:
    model = torch.nn.ModuleDict({"attention": copy.deepcopy(module), "other": torch.nn.Linear(2, 2)})
    tensors = tensors_of(own)
    with pytest.raises(RuntimeError, match="GPU"):
        model["attention"](*tensors)
    done = deformkit.accelerate(model)
    assert list(done.replaced) == ["attention"] and not done.left_alone
    output = model["attention"](*tensors)
    assert torch.equal(output, own.forward(*tensors))
    output.sum().backward()
    assert tensors[0].grad is not None
    assert torch.equal(copy.deepcopy(model)["attention"](*tensors), output)
    assert deformkit.accelerate(model).left_alone == {"attention": "it was replaced before"}
    with pytest.raises(RuntimeError, match="GPU"):  # elsewhere the original goes on
        model["attention"](*(tensor.detach().to("meta") for tensor in tensors))
    done.undo()
    with pytest.raises(RuntimeError, match="GPU"):
        model["attention"](*tensors)


def test_other_arguments_are_not_taken_for_these() -> None:
    def deformable_aggregation_function(feature_maps: Any, depth: Any) -> Any:
        return feature_maps + depth

    from deformkit.adapters.accelerate import adapted

    assert adapted.adapter_of(deformable_aggregation_function) is None
    assert adapted.adapter_of(DAF) is not None
