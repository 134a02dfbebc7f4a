"""As a user of mx_driving would write it, for an NPU."""

import mx_driving
import torch
from mx_driving import geometric_kernel_attention
from mx_driving.ops.geometric_kernel_attention import GeometricKernelAttentionFunc

torch.npu.set_device("npu:0")
torch.manual_seed(0)

bs, num_queries, num_heads, embed_dims, num_points = 2, 50, 8, 32, 4
spatial_shapes = torch.tensor([[60, 40], [30, 20]])
level_start_index = torch.tensor([0, 60 * 40])
num_levels, num_keys = 2, 60 * 40 + 30 * 20

value = torch.rand(bs, num_keys, num_heads, embed_dims)
sampling_locations = torch.rand(bs, num_queries, num_heads, num_levels, num_points, 2) * 45 - 2
attention_weights = torch.rand(bs, num_queries, num_heads, num_levels, num_points)

value_npu = value.npu().requires_grad_()
weights_npu = attention_weights.npu().requires_grad_()
output = geometric_kernel_attention(
    value_npu, spatial_shapes.npu(), level_start_index.npu(), sampling_locations.npu(), weights_npu
)
output.backward(torch.ones_like(output))

# The same with PyTorch's own operators.
value_cpu, weights_cpu = (t.clone().double().requires_grad_() for t in (value, attention_weights))
expected = 0
for level, (H, W) in enumerate(spatial_shapes.tolist()):
    column = sampling_locations[:, :, :, level, :, 0].trunc().clamp(0, W - 1)
    row = sampling_locations[:, :, :, level, :, 1].trunc().clamp(0, H - 1)
    cell = (level_start_index[level] + row * W + column).long()  # batch, queries, heads, points
    index = cell.transpose(1, 2).flatten(2)[..., None].expand(-1, -1, -1, embed_dims)
    taken = value_cpu.transpose(1, 2).gather(2, index).unflatten(2, (num_queries, num_points))
    expected = expected + (taken * weights_cpu[:, :, :, level].transpose(1, 2)[..., None]).sum(3)
expected = expected.transpose(1, 2).flatten(2)
expected.backward(torch.ones_like(expected))

for name, found, golden in [
    ("output", output, expected),
    ("grad_value", value_npu.grad, value_cpu.grad),
    ("grad_attention_weights", weights_npu.grad, weights_cpu.grad),
]:
    error = (found.cpu().double() - golden).abs().max() / golden.abs().max()
    assert golden.abs().max() > 0 and error < 1e-5, (name, error)

for function in (mx_driving.geometric_kernel_attention, GeometricKernelAttentionFunc.apply):
    with torch.no_grad():
        again = function(value_npu, spatial_shapes.npu(), level_start_index.npu(), sampling_locations.npu(), weights_npu)
    assert torch.equal(again, output)
print("geometric_kernel_attention agrees")
