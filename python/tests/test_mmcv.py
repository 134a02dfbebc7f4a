"""mmcv's own module, with and without the library's kernels."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import deformkit  # noqa: E402


class _Extension(types.ModuleType):
    """In place of mmcv's compiled operators, which mmcv-lite does not bring along and the module does not call on the CPU."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


@pytest.fixture(scope="module")
def attention() -> Any:
    pytest.importorskip("mmcv", exc_type=ImportError)
    try:
        import mmcv._ext  # noqa: F401
    except ImportError:
        sys.modules["mmcv._ext"] = _Extension("mmcv._ext")
    from mmcv.ops.multi_scale_deform_attn import MultiScaleDeformableAttention

    torch.manual_seed(0)
    module = MultiScaleDeformableAttention(embed_dims=64, num_heads=4, num_levels=3, num_points=4, batch_first=True).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return module


def run(module: Any, identity: str = "identity") -> Any:
    torch.manual_seed(1)
    shapes = torch.tensor([[12, 20], [6, 10], [3, 5]])
    query, value = torch.randn(2, 30, 64, requires_grad=True), torch.randn(2, 315, 64, requires_grad=True)
    output = module(
        query,
        value=value,
        reference_points=torch.rand(2, 30, 3, 2),
        spatial_shapes=shapes,
        level_start_index=torch.tensor([0, 240, 300]),
        **{identity: query},
    )
    return output, *torch.autograd.grad(output.square().sum(), [query, value, *module.parameters()])


def test_accelerate(attention: Any) -> None:
    expected = run(attention)
    with deformkit.accelerate(attention) as done:
        assert done.replaced == {"": "MultiScaleDeformableAttnFunction, multi_scale_deformable_attn_pytorch"}
        assert done.rewritten == [""]
        found = run(attention)
        # The decorator of forward, which knows an argument by a former name, is still there.
        with pytest.warns(DeprecationWarning, match="residual"):
            torch.testing.assert_close(run(attention, identity="residual")[0], found[0])
    for one, other in zip(found, expected):
        scale = other.abs().max().item()
        torch.testing.assert_close(one, other, rtol=1e-5, atol=2e-6 * scale)
    assert "forward" not in vars(attention)
