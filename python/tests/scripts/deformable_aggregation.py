"""As a user of mx_driving would write it, for an NPU."""

import mx_driving
import mx_driving.fused
import torch
from mx_driving import deformable_aggregation
from mx_driving.ops.npu_deformable_aggregation import AdsDeformableAggregation, npu_deformable_aggregation

torch.npu.set_device("npu:0")
torch.manual_seed(0)

bs, num_anchors, num_pts, num_cams, num_groups, num_embeds = 2, 20, 13, 3, 8, 64
spatial_shape = torch.tensor([[[16, 44], [8, 22]]] * num_cams, dtype=torch.int32)
sizes = spatial_shape.prod(-1).flatten()
scale_start_index = torch.cat((sizes.new_zeros(1), sizes.cumsum(0)[:-1])).view(num_cams, -1).int()
num_scale = spatial_shape.shape[1]

feature_maps = torch.rand(bs, int(sizes.sum()), num_embeds)
sample_locations = torch.rand(bs, num_anchors, num_pts, num_cams, 2) * 2 - 0.5
weights = torch.rand(bs, num_anchors, num_pts, num_cams, num_scale, num_groups)

maps_npu = feature_maps.npu().requires_grad_()
locations_npu = sample_locations.npu().requires_grad_()
weights_npu = weights.npu().requires_grad_()
output = deformable_aggregation(maps_npu, spatial_shape.npu(), scale_start_index.npu(), locations_npu, weights_npu)
output.backward(torch.ones_like(output))

# The same with PyTorch's own operators.
maps_cpu, locations_cpu, weights_cpu = (t.clone().double().requires_grad_() for t in (feature_maps, sample_locations, weights))
inside = ((locations_cpu > 0) & (locations_cpu < 1)).all(-1)
expected = 0
for camera in range(num_cams):
    for scale in range(num_scale):
        (H, W), first = spatial_shape[camera, scale].tolist(), scale_start_index[camera, scale].item()
        feature_map = maps_cpu[:, first : first + H * W].transpose(1, 2).reshape(bs, num_embeds, H, W)
        sampled = torch.nn.functional.grid_sample(feature_map, 2 * locations_cpu[:, :, :, camera] - 1, align_corners=False)
        sampled = sampled.permute(0, 2, 3, 1).unflatten(-1, (num_groups, -1))  # batch, anchors, points, groups, channels
        weight = weights_cpu[:, :, :, camera, scale] * inside[:, :, :, camera, None]
        expected = expected + (sampled * weight[..., None]).sum(2).flatten(-2)
expected.backward(torch.ones_like(expected))

for name, found, golden in [
    ("output", output, expected),
    ("grad_feature_maps", maps_npu.grad, maps_cpu.grad),
    ("grad_sample_locations", locations_npu.grad, locations_cpu.grad),
    ("grad_weights", weights_npu.grad, weights_cpu.grad),
]:
    error = (found.cpu().double() - golden).abs().max() / golden.abs().max()
    assert golden.abs().max() > 0 and error < 1e-5, (name, error)

for function in (
    mx_driving.deformable_aggregation,
    mx_driving.npu_deformable_aggregation,
    mx_driving.fused.npu_deformable_aggregation,
    npu_deformable_aggregation,
    AdsDeformableAggregation.apply,
):
    with torch.no_grad():
        again = function(maps_npu, spatial_shape.npu(), scale_start_index.npu(), locations_npu, weights_npu)
    assert torch.equal(again, output)
print("deformable_aggregation agrees")
