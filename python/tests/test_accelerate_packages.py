"""accelerate() on models of other packages, as their users build them, with random weights."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import deformkit  # noqa: E402


def look_around(model: Any) -> None:
    """Fresh models look straight ahead, and take the mean of what they see: any sampling would do for them."""
    for name, parameter in model.named_parameters():
        if "sampling_offsets" in name or "attention_weights" in name:
            torch.nn.init.normal_(parameter, std=0.3)


def assert_serves(model: Any, attention: Any, run: Any, dtype: Any = torch.float32) -> None:
    """That `model` has one result with and without the library, and that the library is what computed it. `attention` is one of
    its deformable attentions."""
    seen: list[Any] = []
    hook = attention.register_forward_hook(lambda module, inputs, output: seen.append(output))
    expected = run(model)
    with deformkit.accelerate(model) as done, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert done.replaced and not done.left_alone
        deformkit.set_target("sse41")
        found = run(model)
        assert deformkit.last_variant().endswith("_sse41")
    hook.remove()
    assert seen[0].abs().max() > 0.01
    torch.testing.assert_close(seen[1], seen[0], rtol=1e-4, atol=1e-5 * seen[0].abs().max().item())
    # Queries of equal score may change places.
    found, expected = found.sort(1).values, expected.sort(1).values
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * expected.abs().max().item())


def test_ultralytics() -> None:
    tasks = pytest.importorskip("ultralytics.nn.tasks")
    torch.manual_seed(0)
    model = tasks.RTDETRDetectionModel("rtdetr-resnet50.yaml", nc=5, verbose=False).eval()
    look_around(model)
    picture = torch.rand(1, 3, 128, 160)

    def run(model: Any) -> Any:
        with torch.no_grad():
            return model(picture)[0]

    assert_serves(model, model.model[-1].decoder.layers[0].cross_attn, run)


@pytest.mark.parametrize("exported", [False, True])
def test_rfdetr(exported: bool) -> None:
    """Its attention, which export() gives another form."""
    modules = pytest.importorskip("rfdetr.models.ops.modules")
    torch.manual_seed(0)
    attention = modules.MSDeformAttn(d_model=64, n_levels=2, n_heads=4, n_points=3)
    look_around(attention)
    model = torch.nn.ModuleDict({"layer": attention})
    if exported:
        attention.export()
    levels = [(7, 5), (4, 3)]
    query, source, boxes = torch.randn(2, 9, 64), torch.randn(2, 47, 64), torch.rand(2, 9, 2, 4)

    def run(model: Any) -> Any:
        shapes = torch.tensor(levels)
        return model.layer(query, boxes, source, shapes, torch.tensor([0, 35]), None, input_spatial_shapes_hw=levels)

    assert_serves(model, attention, run)
