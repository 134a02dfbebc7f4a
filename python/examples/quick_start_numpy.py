import numpy as np

import deformkit

value = np.random.rand(1, 50 * 40 + 25 * 20, 8, 32).astype(np.float32)  # batch, cells, heads, channels
shapes = np.array([[50, 40], [25, 20]])  # (H, W) of each level
starts = np.array([0, 50 * 40])  # its first cell
locations = np.random.rand(1, 300, 8, 2, 4, 2).astype(np.float32)  # batch, queries, heads, levels, points, (x, y) in 0 .. 1
weights = np.full((1, 300, 8, 2, 4), 1 / 8, np.float32)

output = deformkit.multi_scale_deformable_attn(value, shapes, starts, locations, weights)
print(output.shape)  # (1, 300, 256)

grad_value, _, grad_weights = deformkit.multi_scale_deformable_attn_backward(
    value, shapes, starts, locations, weights, np.ones_like(output), wanted=["value", "attention_weights"]
)
