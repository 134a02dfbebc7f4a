"""A model that somebody else exported, made faster: its chain of GridSample becomes one node."""

import os
import sys
import tempfile

import torch

import deformkit.onnx


class Attention(torch.nn.Module):
    """One level of deformable attention, as models carry it."""

    def forward(self, value: torch.Tensor, locations: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        batch, queries, heads, points, _ = locations.shape
        maps = value.transpose(1, 2).transpose(2, 3).reshape(batch * heads, -1, 40, 40)
        grid = (2 * locations - 1).transpose(1, 2).flatten(0, 1)
        sampled = torch.nn.functional.grid_sample(maps, grid, align_corners=False)
        weighted = (sampled * weights.transpose(1, 2).reshape(batch * heads, 1, queries, points)).sum(-1)
        return weighted.view(batch, -1, queries).transpose(1, 2)


path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(tempfile.mkdtemp(), "model.onnx")
if len(sys.argv) == 1:
    inputs = (torch.rand(1, 1600, 8, 32), torch.rand(1, 300, 8, 4, 2), torch.rand(1, 300, 8, 4))
    torch.onnx.export(Attention(), inputs, path, dynamo=False, opset_version=17)

done = deformkit.onnx.fuse(path)
print(done)  # what was replaced, what was not recognised, and by how much results differ
done.save(path.replace(".onnx", "_fused.onnx"))
