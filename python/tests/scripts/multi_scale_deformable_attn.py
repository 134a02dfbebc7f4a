"""As a user of mx_driving would write it, for an NPU."""

import mx_driving
import mx_driving.fused
import mx_driving.point
import torch
from mx_driving import multi_scale_deformable_attn
from mx_driving.ops.multi_scale_deformable_attn import MultiScaleDeformableAttnFunction

torch.npu.set_device("npu:0")
torch.manual_seed(0)

bs, num_heads, embed_dims, num_queries, num_points = 6, 8, 32, 100, 4
shapes = torch.as_tensor([(60, 40), (30, 20)], dtype=torch.long)
num_levels = len(shapes)
num_keys = sum((H * W).item() for H, W in shapes)
level_start_index = torch.cat((shapes.new_zeros((1,)), shapes.prod(1).cumsum(0)[:-1]))

value = torch.rand(bs, num_keys, num_heads, embed_dims) * 0.01
sampling_locations = torch.rand(bs, num_queries, num_heads, num_levels, num_points, 2)
attention_weights = torch.rand(bs, num_queries, num_heads, num_levels, num_points) + 1e-5
attention_weights /= attention_weights.sum((-1, -2), keepdim=True)

value_npu = value.npu().requires_grad_()
locations_npu = sampling_locations.to("npu:0").requires_grad_()
weights_npu = attention_weights.to(torch.device("npu")).requires_grad_()
output = multi_scale_deformable_attn(value_npu, shapes.npu(), level_start_index.npu(), locations_npu, weights_npu)
output.backward(torch.ones_like(output, device="npu"))
torch.npu.synchronize()

# The same with PyTorch's own operators.
value_cpu, locations_cpu, weights_cpu = (
    t.clone().double().requires_grad_() for t in (value, sampling_locations, attention_weights)
)
samples = []
for level, (H, W) in enumerate(shapes.tolist()):
    first = level_start_index[level].item()
    feature_map = value_cpu[:, first : first + H * W].flatten(2).transpose(1, 2).reshape(bs * num_heads, embed_dims, H, W)
    grid = 2 * locations_cpu[:, :, :, level].transpose(1, 2).flatten(0, 1) - 1
    samples.append(torch.nn.functional.grid_sample(feature_map, grid, align_corners=False))
weights = weights_cpu.transpose(1, 2).reshape(bs * num_heads, 1, num_queries, -1)
expected = (torch.stack(samples, -2).flatten(-2) * weights).sum(-1).view(bs, num_heads * embed_dims, num_queries).transpose(1, 2)
expected.backward(torch.ones_like(expected))

for name, found, golden in [
    ("output", output, expected),
    ("grad_value", value_npu.grad, value_cpu.grad),
    ("grad_sampling_locations", locations_npu.grad, locations_cpu.grad),
    ("grad_attention_weights", weights_npu.grad, weights_cpu.grad),
]:
    error = (found.cpu().double() - golden).abs().max() / golden.abs().max()
    assert golden.abs().max() > 0 and error < 1e-5, (name, error)

for function in (
    mx_driving.multi_scale_deformable_attn,
    mx_driving.point.npu_multi_scale_deformable_attn_function,
    mx_driving.fused.npu_multi_scale_deformable_attn_function,
    MultiScaleDeformableAttnFunction.apply,
):
    with torch.no_grad():
        again = function(value_npu, shapes.npu(), level_start_index.npu(), locations_npu, weights_npu)
    assert torch.equal(again, output)
print("multi_scale_deformable_attn agrees")
