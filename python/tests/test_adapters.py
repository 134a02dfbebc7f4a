"""Functions under other libraries' names, called as their users call them."""

from __future__ import annotations

import itertools
import sys
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from problems import PROBLEMS  # noqa: E402
from test_torch import tensors_of  # noqa: E402

import deformkit  # noqa: E402
from deformkit.adapters import _msda, deformable_detr, maptr, mmcv, msda_triton, sparse4d, torch_ms_deform_attn  # noqa: E402

MSDA, DA, GKA = (next(problem for problem in PROBLEMS if problem.kernels == kernels) for kernels in ("msda", "da", "gka"))


@pytest.mark.parametrize("function", [mmcv.multi_scale_deformable_attn_pytorch, deformable_detr.ms_deform_attn_core_pytorch])
def test_without_level_starts(function: Any) -> None:
    value, shapes, starts, locations, weights = tensors_of(MSDA)
    expected = deformkit.multi_scale_deformable_attn(value, shapes, starts, locations, weights)
    for given in (shapes, shapes.int(), shapes.tolist(), [tuple(level) for level in shapes.tolist()]):
        assert torch.equal(function(value, given, locations, weights), expected)
    function(value, shapes, locations, weights).sum().backward()
    assert value.grad is not None


@pytest.mark.parametrize("function", [mmcv.MultiScaleDeformableAttnFunction, deformable_detr.MSDeformAttnFunction])
def test_apply(function: Any) -> None:
    tensors = tensors_of(MSDA)
    expected = deformkit.multi_scale_deformable_attn(*tensors)
    for result in (function.apply(*tensors), function.apply(*tensors, 64), function.apply(*tensors, im2col_step=1)):
        assert torch.equal(result, expected)
    result.sum().backward()
    assert all(t.grad is not None for t in (tensors[0], tensors[3], tensors[4]))


@pytest.mark.parametrize("points", [(3, 6, 3), (4, 4, 4), (1, 2, 5)])
def test_ragged_points(points: tuple[int, ...]) -> None:
    """Against one call per level."""
    torch.manual_seed(0)
    levels = [(7, 5), (3, 9), (3, 3)]
    value = torch.randn(2, sum(h * w for h, w in levels), 2, 8)
    locations, weights = torch.rand(2, 6, 2, sum(points), 2), torch.rand(2, 6, 2, sum(points))
    parts = [
        mmcv.multi_scale_deformable_attn_pytorch(v, [level], xy[:, :, :, None], w[:, :, :, None])
        for v, level, xy, w in zip(
            value.split([h * w for h, w in levels], 1), levels, locations.split(points, 3), weights.split(points, 3)
        )
    ]
    for shapes in (levels, torch.tensor(levels)):
        found = _msda.from_ragged(value, shapes, locations, weights, points)
        torch.testing.assert_close(found, sum(parts), rtol=1e-5, atol=1e-5)


def test_errors_name_the_callers_arguments() -> None:
    value, shapes, starts, locations, weights = tensors_of(MSDA)
    shapes_only, apply = mmcv.multi_scale_deformable_attn_pytorch, mmcv.MultiScaleDeformableAttnFunction.apply
    cases: list[tuple[Any, tuple[Any, ...], str]] = [
        (shapes_only, (value, shapes[:, :1], locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, shapes.flatten(), locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, shapes.double(), locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, [1, 2], locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, None, locations, weights), "value_spatial_shapes"),
        (shapes_only, (value, shapes, locations, weights[1:]), "attention_weights"),
        (apply, (value, shapes, starts[1:], locations, weights), "value_level_start_index"),
        (_msda.from_ragged, (value, shapes, locations.flatten(3, 4), weights.flatten(3), [4, 4]), "sampling_locations"),
        (_msda.from_ragged, (value, shapes, locations.flatten(3, 4), weights, [4, 4, 4]), "attention_weights"),
        (_msda.from_ragged, (value, shapes, locations.flatten(3, 4), weights.flatten(3), [6, 6]), "num_points_list"),
    ]
    for function, arguments, name in cases:
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            function(*arguments)


@pytest.mark.parametrize(
    ("own", "function"),
    [
        (MSDA, mmcv.MultiScaleDeformableAttnFunction),
        (MSDA, deformable_detr.MSDeformAttnFunction),
        (GKA, maptr.GeometricKernelAttentionFunc),
        (DA, sparse4d.DeformableAggregationFunction),
    ],
)
def test_functions(own: Any, function: Any) -> None:
    """As autograd Functions: by keyword, compiled, with the wrong count, and with mixed types."""
    tensors, names = tensors_of(own), list(function.signature.names.values())
    expected = own.forward(*tensors)
    assert issubclass(function, torch.autograd.Function)
    assert torch.equal(function.apply(*tensors[:3], **dict(zip(names[3:], tensors[3:]))), expected)
    compiled = torch.compile(lambda *inputs: function.apply(*inputs), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*tensors), expected)
    for arguments in (tensors[:-1], [*tensors, 64, 64]):
        with pytest.raises(TypeError, match=", ".join(names)):
            function.apply(*arguments)
    with pytest.raises(TypeError, match="value_typo by name"):
        function.apply(*tensors, value_typo=1)

    value, *others = tensors
    others = [other.detach().double().requires_grad_() if other.is_floating_point() else other.int() for other in others]
    for autocast in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            output = function.apply(value.bfloat16(), *others)
            assert output.dtype == (torch.float32 if own is DA else torch.bfloat16)
    output.float().sum().backward()
    assert others[-1].grad is not None and others[-1].grad.dtype == torch.float64


def test_integer_locations() -> None:
    """As GKT and MapTR make them."""
    value, shapes, starts, locations, weights = tensors_of(GKA)
    output = maptr.GeometricKernelAttentionFunc.apply(value, shapes, starts, locations.long().contiguous(), weights, 64)
    assert torch.equal(output, deformkit.geometric_kernel_attention(value, shapes, starts, locations, weights))


def test_sparse4d() -> None:
    tensors = tensors_of(DA)
    function: Any = sparse4d.deformable_aggregation_function
    output = function(*(tensor.half() if tensor.is_floating_point() else tensor for tensor in tensors))
    assert output.dtype == torch.float32
    with pytest.raises(ValueError, match="^feature_maps: expected"):
        function(tensors[0][None], *tensors[1:])
    with pytest.raises(ValueError, match="^sampling_location: expected"):
        function(*tensors[:3], tensors[3][None], tensors[4])


def test_types_of_mmcv() -> None:
    """Wherever mmcv's function runs, the result has the type of mmcv's, under autocast as well."""
    pytest.importorskip("mmcv", exc_type=ImportError)
    extension = type("Extension", (types.ModuleType,), {"__getattr__": lambda self, name: None})
    sys.modules.setdefault("mmcv._ext", extension("mmcv._ext"))
    from mmcv.ops.multi_scale_deform_attn import multi_scale_deformable_attn_pytorch

    value, shapes, _, locations, weights = (t.detach() for t in tensors_of(MSDA))
    compared = 0
    for autocast, *dtypes in itertools.product((False, True), *[(torch.bfloat16, torch.float32)] * 3):
        given = [tensor.to(dtype) for tensor, dtype in zip((value, locations, weights), dtypes)]
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            try:
                expected = multi_scale_deformable_attn_pytorch(given[0], shapes, *given[1:])
            except RuntimeError:
                continue
            found = mmcv.multi_scale_deformable_attn_pytorch(given[0], shapes, *given[1:])
        assert found.dtype == expected.dtype, (autocast, dtypes)
        torch.testing.assert_close(found, expected, atol=0.2, rtol=0)  # mmcv rounds at each step
        compared += 1
    assert compared == 12


def test_torch_ms_deform_attn() -> None:
    """Its types, and the words of its errors that its tests look for."""
    function: Any = torch_ms_deform_attn.ms_deform_attn
    apply: Any = torch_ms_deform_attn.MSDeformAttnFunction.apply
    tensors = tensors_of(MSDA)
    value, shapes, starts, locations, weights = tensors
    expected = deformkit.multi_scale_deformable_attn(*tensors)
    assert torch.equal(function(*tensors), expected) and torch.equal(apply(*tensors, 2), expected)
    assert torch.equal(torch_ms_deform_attn.ms_deform_attn_core_pytorch(value, shapes, locations, weights), expected)
    low = (value.half(), shapes, starts, locations.half(), weights.half())
    assert function(*low).dtype == torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert function(low[0], shapes, starts, locations, weights.bfloat16()).dtype == torch.float32
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*tensors), expected)
    cases: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
        ((value.int(), shapes, starts, locations.int(), weights.int()), {}, "float32 and float64"),
        ((value, shapes, starts, locations.double(), weights), {}, "dtypes must match"),
        ((value, shapes.int(), starts, locations, weights), {}, "int64"),
        ((value, shapes, starts + 100, locations, weights), {}, "exceeds"),
        ((value, shapes, starts, locations[None], weights), {}, "shape"),
        ((value, shapes, starts, locations, weights[:, :1]), {}, "shape"),
        (tuple(tensors), {"im2col_step": 0}, "positive"),
    ]
    for arguments, options, message in cases:
        with pytest.raises(RuntimeError, match=message):
            function(*arguments, **options)


@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("align_corners", [False, True])
def test_msda_triton(padding_mode: str, align_corners: bool) -> None:
    """Against grid_sample with these options, gradients included."""
    value, shapes, _, locations, weights = (
        t.detach().double().requires_grad_() if t.is_floating_point() else t for t in tensors_of(MSDA)
    )
    function: Any = msda_triton.multiscale_deformable_attention
    found = function(value, shapes, locations, weights, padding_mode, align_corners)
    levels = value.split(shapes.prod(1).tolist(), 1)
    expected = 0
    for level, (cells, (height, width)) in enumerate(zip(levels, shapes.tolist())):
        maps = cells.permute(0, 2, 3, 1).flatten(0, 1).unflatten(-1, (height, width))
        grid = 2 * locations[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
        options: Any = {"padding_mode": padding_mode, "align_corners": align_corners}
        samples = torch.nn.functional.grid_sample(maps, grid, **options).unflatten(0, (value.shape[0], -1))
        expected = expected + torch.einsum("bmdqp,bqmp->bqmd", samples, weights[:, :, :, level])
    torch.testing.assert_close(found, expected)
    inputs = (value, locations, weights)
    grad_output = torch.rand_like(found)
    for one, other in zip(torch.autograd.grad(found, inputs, grad_output), torch.autograd.grad(expected, inputs, grad_output)):
        torch.testing.assert_close(one, other)
    assert function is msda_triton.triton_multiscale_deformable_attention is msda_triton.native_multiscale_deformable_attention
    for i, name in enumerate(("img", "img_shapes", "sampling_points", "attention_weights")):
        wrong = [value, shapes, locations, weights]
        wrong[i] = wrong[i][None]
        with pytest.raises((TypeError, ValueError), match=f"^{name}: expected"):
            function(wrong[0], wrong[1], wrong[2], wrong[3], "zeros", False)
    with pytest.raises(ValueError, match="^padding_mode: expected"):
        function(value, shapes, locations, weights, "reflection", False)
