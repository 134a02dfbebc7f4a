"""Models that were exported without the library: chains of GridSample become nodes, and results stay."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import deformkit.onnx  # noqa: E402

LEVELS = [(7, 5), (4, 3)]


class Attention(torch.nn.Module):
    """As Deformable DETR and what follows it write it, from a projection to the next one."""

    def __init__(self, form: str, heads: int = 4, channels: int = 8) -> None:
        super().__init__()
        self.form, self.heads, self.channels = form, heads, channels
        self.points = [2, 4] if form == "ragged" else [3, 3]
        width = heads * channels
        self.project, self.finish = torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, source: Any, locations: Any, weights: Any) -> Any:
        batch, queries = locations.shape[:2]
        weights = weights.softmax(-1)
        value = self.project(source).view(batch, -1, self.heads, self.channels)
        sizes = [h * w for h, w in LEVELS]
        samples = sum(self.points)
        grids = 2 * locations - 1
        if self.form == "levels":  # Deformable DETR, RT-DETR
            grids = grids.view(batch, queries, self.heads, len(LEVELS), -1, 2)
            maps = [m.flatten(2).transpose(1, 2) for m in value.split(sizes, 1)]
            at_level = [grids[:, :, :, level].transpose(1, 2).flatten(0, 1) for level in range(len(LEVELS))]
        elif self.form == "ragged":  # RT-DETRv2, D-FINE
            maps = value.permute(0, 2, 3, 1).flatten(0, 1).split(sizes, -1)
            at_level = grids.permute(0, 2, 1, 3, 4).flatten(0, 1).split(self.points, -2)
        else:  # RF-DETR
            maps = value.transpose(1, 2).transpose(2, 3).split(sizes, 3)
            ends = np.cumsum([0, *self.points])
            at_level = [grids[:, :, :, a:b].transpose(1, 2).flatten(0, 1) for a, b in zip(ends, ends[1:])]
        sampled = [
            torch.nn.functional.grid_sample(m.reshape(batch * self.heads, self.channels, h, w), grid, align_corners=False)
            for m, grid, (h, w) in zip(maps, at_level, LEVELS)
        ]
        joined = torch.concat(sampled, -1) if self.form == "ragged" else torch.stack(sampled, -2).flatten(-2)
        weights = weights.transpose(1, 2).reshape(batch * self.heads, 1, queries, samples)
        output = (joined * weights).sum(-1).view(batch, -1, queries)
        return self.finish(output.transpose(1, 2))


def inputs_of(batch: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(batch)
    return {
        "source": torch.randn(batch, sum(h * w for h, w in LEVELS), 32, generator=generator),
        "locations": torch.rand(batch, 9, 4, 6, 2, generator=generator) * 1.4 - 0.2,
        "weights": torch.randn(batch, 9, 4, 6, generator=generator),
    }


def export(model: Any, inputs: dict[str, Any], path: Path, dynamo: bool, dynamic: bool) -> None:
    options: dict[str, Any] = {"input_names": list(inputs), "dynamo": dynamo}
    if dynamo:
        options["verbose"] = False
        if dynamic:
            options["dynamic_shapes"] = [{0: torch.export.Dim("batch")} for _ in inputs]
    else:
        options["opset_version"] = 17
        if dynamic:
            options["dynamic_axes"] = {name: {0: "batch"} for name in inputs}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, tuple(inputs.values()), path, **options)


def operators(model: Any) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("dynamo, dynamic", [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize("form", ["levels", "ragged", "merged"])
def test_forms(form: str, dynamo: bool, dynamic: bool, tmp_path: Path) -> None:
    from onnx_models import session

    torch.manual_seed(0)
    model = Attention(form).eval()
    export(model, inputs_of(2 if dynamic else 1), tmp_path / "model.onnx", dynamo, dynamic)
    done = deformkit.onnx.fuse(tmp_path / "model.onnx")
    assert list(done.replaced) == ["deformkit_0"] and not done.left_alone, done
    assert max(done.largest_difference.values()) < 1e-5
    assert operators(done.model).count("MultiScaleDeformableAttention") == 1 and "GridSample" not in operators(done.model)
    assert len(done.model.graph.node) < len(onnx.load(tmp_path / "model.onnx").graph.node)
    onnx.checker.check_model(done.model)
    fused = session(done.model)
    for batch in (1, 2, 3) if dynamic else (1,):
        inputs = inputs_of(batch)
        (found,) = fused.run(None, {name: tensor.numpy() for name, tensor in inputs.items()})
        torch.testing.assert_close(torch.from_numpy(found), model(*inputs.values()).detach(), rtol=1e-4, atol=1e-5)


def test_what_is_not_recognised_is_named(tmp_path: Path) -> None:
    class Other(torch.nn.Module):
        def forward(self, maps: Any, grid: Any) -> Any:
            return torch.nn.functional.grid_sample(maps, grid, align_corners=True) + torch.nn.functional.grid_sample(maps, grid)

    inputs = {"maps": torch.rand(1, 3, 4, 5), "grid": torch.rand(1, 6, 2, 2)}
    export(Other(), inputs, tmp_path / "model.onnx", False, False)
    done = deformkit.onnx.fuse(tmp_path / "model.onnx")
    assert not done.replaced
    assert sorted(done.left_alone.values())[0].startswith("it is not bilinear") and "samples go to Add" in str(done)
    assert operators(done.model) == operators(onnx.load(tmp_path / "model.onnx"))


def test_other_orders_are_left_alone(tmp_path: Path) -> None:
    """Channels before heads: the same shapes, but not what the operator computes."""

    class Mixed(Attention):
        def forward(self, source: Any, locations: Any, weights: Any) -> Any:
            mixed = source.view(*source.shape[:2], self.channels, self.heads).transpose(2, 3)
            maps = mixed.permute(0, 2, 3, 1).flatten(0, 1)[..., :35].reshape(-1, self.channels, 7, 5)
            grid = (2 * locations - 1).flip(-1).transpose(1, 2).flatten(0, 1)
            sampled = torch.nn.functional.grid_sample(maps, grid, align_corners=False)
            weights = weights.transpose(1, 2).flatten(0, 1).unsqueeze(1)
            return (sampled * weights).sum(-1).view(len(source), -1, locations.shape[1]).transpose(1, 2)

    export(Mixed("levels").eval(), inputs_of(1), tmp_path / "model.onnx", False, False)
    done = deformkit.onnx.fuse(tmp_path / "model.onnx")
    assert not done.replaced and len(done.left_alone) == 1


@pytest.mark.parametrize("family", ["rt_detr", "rt_detr_v2", "d_fine"])
def test_models(family: str, tmp_path: Path) -> None:
    """Of transformers, with a batch of any size."""
    pytest.importorskip("transformers")
    import transformers_models

    class Outputs(torch.nn.Module):
        def __init__(self, model: Any) -> None:
            super().__init__()
            self.model = model

        def forward(self, pixels: Any) -> Any:
            found = self.model(pixels)
            return found.logits, found.pred_boxes

    torch.manual_seed(0)
    model = Outputs(getattr(transformers_models, family)()[0].eval())
    export(model, {"pixels": torch.rand(2, 3, 96, 128)}, tmp_path / "model.onnx", False, True)
    done = deformkit.onnx.fuse(tmp_path / "model.onnx")
    assert len(done.replaced) == 2 and not done.left_alone, done
    assert max(done.largest_difference.values()) < 1e-4
