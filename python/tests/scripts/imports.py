"""The names that model files import from mx_driving, most of which they then do not call."""

import ads.common
import mx_driving
import mx_driving._C  # noqa: F401
import mx_driving.common
import mx_driving.fused.ops.onnx as onnx_ads
import torch
from ads.common.ops.npu_multi_scale_deformable_attn_function import npu_multi_scale_deformable_attn_function
from mx_driving import (
    SparseConv3d,
    Voxelization,
    bev_pool_v3,
    boxes_iou_bev,
    deform_conv2d,
    furthest_point_sample_with_dist,
    grid_sampler2d_v2,
    knn,
    modulated_deform_conv2d,
    multi_scale_deformable_attn,
    npu_add_relu,
    npu_batch_matmul,
    npu_gaussian,
    npu_index_select,
    npu_rotated_iou,
    npu_voxel_pooling_train,
    roi_align_rotated,
    scatter_max,
    sigmoid_focal_loss,
    three_interpolate,
)
from mx_driving.detection import border_align, nms3d_normal  # noqa: F401
from mx_driving.fused import npu_deformable_aggregation as DAF
from mx_driving.fused import npu_geometric_kernel_attention, npu_max_pool2d  # noqa: F401
from mx_driving.fused.ops.npu_deformable_aggregation import AdsDeformableAggregation
from mx_driving.modules.sparse_modules import is_spconv_module  # noqa: F401
from mx_driving.ops.hypot import Hypot
from mx_driving.ops.npu_geometric_kernel_attention import GeometricKernelAttentionFunc
from mx_driving.point import bev_pool_v2, npu_dynamic_scatter  # noqa: F401
from mx_driving.preprocess import RoIPointPool3d, roipoint_pool3d  # noqa: F401
from mx_driving.spconv import SparseConvTensor, SparseSequential  # noqa: F401


class Backbone(SparseConv3d):
    """A class of a model that is not used either."""


assert mx_driving.ops.hypot.hypot is mx_driving.common.hypot
assert npu_geometric_kernel_attention == GeometricKernelAttentionFunc.apply
assert DAF == AdsDeformableAggregation.apply == mx_driving.deformable_aggregation
assert ads.common.npu_multi_scale_deformable_attn_function is npu_multi_scale_deformable_attn_function
assert onnx_ads.onnx_msda == multi_scale_deformable_attn

absent = (
    (Backbone, "SparseConv3d"),
    (Voxelization, "Voxelization"),
    (Hypot.apply, "Hypot"),
    (bev_pool_v3, "bev_pool_v3"),
    (boxes_iou_bev, "boxes_iou_bev"),
    (deform_conv2d, "deform_conv2d"),
    (furthest_point_sample_with_dist, "furthest_point_sample_with_dist"),
    (grid_sampler2d_v2, "grid_sampler2d_v2"),
    (knn, "knn"),
    (modulated_deform_conv2d, "modulated_deform_conv2d"),
    (npu_add_relu, "npu_add_relu"),
    (npu_batch_matmul, "npu_batch_matmul"),
    (npu_gaussian, "npu_gaussian"),
    (npu_index_select, "npu_index_select"),
    (npu_rotated_iou, "npu_rotated_iou"),
    (npu_voxel_pooling_train, "npu_voxel_pooling_train"),
    (roi_align_rotated, "roi_align_rotated"),
    (scatter_max, "scatter_max"),
    (sigmoid_focal_loss, "sigmoid_focal_loss"),
    (three_interpolate, "three_interpolate"),
)
for function, name in absent:
    try:
        function(torch.rand(2), dim=1)
    except NotImplementedError as error:
        assert f"mx_driving.{name}: not in deformkit" in str(error), error
    else:
        raise AssertionError(name)

for statement in ("import mx_driving.nonsense", "from mx_driving.ops import nonsense", "from mx_driving import nonsense"):
    try:
        exec(statement)
    except ImportError as error:
        assert "nonsense" in str(error)
    else:
        raise AssertionError(statement)
print("imports agrees")
