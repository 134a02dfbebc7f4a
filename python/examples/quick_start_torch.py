import torch

import deformkit

value = torch.rand(1, 50 * 40 + 25 * 20, 8, 32, requires_grad=True)  # batch, cells, heads, channels
shapes = torch.tensor([[50, 40], [25, 20]])  # (H, W) of each level
starts = torch.tensor([0, 50 * 40])  # its first cell
locations = torch.rand(1, 300, 8, 2, 4, 2)  # batch, queries, heads, levels, points, (x, y) in 0 .. 1
weights = torch.rand(1, 300, 8, 8).softmax(-1).unflatten(-1, (2, 4))

output = deformkit.multi_scale_deformable_attn(value, shapes, starts, locations, weights)
output.sum().backward()
print(output.shape, value.grad.shape)
