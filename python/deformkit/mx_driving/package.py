"""The names of the whole mx_driving package, and of ads, as it was called before: modules and what is in them.

Three of its operators are deformkit's. A model file may import the others; they raise when they are called.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
import types
from collections.abc import Sequence
from typing import Any, Optional

from . import ops, patcher

#: Modules that hold names of all operators, at any depth: mx_driving.fused, ads.perception.point.
PACKAGES = frozenset(
    "api common dataset detection fused modules motion onnx perception point preprocess spconv utils vision".split()
)
#: Modules of one operator each, in mx_driving.ops and in the ops of every package.
OPERATOR_MODULES = frozenset(
    """
    assign_score_withk bev_pool bev_pool_v2 bev_pool_v3 border_align box_iou boxes_overlap_bev cal_anchors_heading
    cartesian_to_frenet cylinder_query deform_conv2d diff_iou_rotated dynamic_voxelization furthest_point_sampling
    furthest_point_sampling_with_dist fused_bias_leaky_relu geometric_kernel_attention graph_softmax grid_sampler2d_v2
    grid_sampler3d_v1 group_points hypot knn min_area_polygons modulated_deform_conv2d multi_scale_deformable_attn nms3d
    nms3d_normal nms3d_on_sight npu_add_relu npu_assign_target_of_single_head npu_batch_matmul npu_deformable_aggregation
    npu_draw_gaussian_to_heatmap npu_dynamic_scatter npu_fake_tensor_quant npu_gaussian npu_geometric_kernel_attention
    npu_geometric_kernel_attention_func npu_index_select npu_max_pool2d npu_multi_scale_deformable_attn_function npu_nms3d
    npu_points_in_box npu_points_in_box_all npu_roipoint_pool3d npu_scatter_mean_grad npu_unique pixel_group radius
    roi_align_rotated roiaware_pool3d roipoint_pool3d rotated_iou rotated_overlaps scatter_add scatter_max scatter_mean
    sigmoid_focal_loss sort_pairs sparse_conv sparse_functional sparse_modules sparse_ops sparse_structure threeNN
    three_interpolate three_nn unique_voxel voxel_pooling_train voxelization
    agent_dataset dynamic_dataset dynamic_sampler dynamic_transforms point_dataset roi_point_pool_3d
    """.split()
)
#: Modules of mx_driving.patcher, all with the same names.
PATCHER_MODULES = frozenset(
    """
    brake distribute functions legacy mmcv mmcv_patch mmdet mmdet3d mmdet3d_patch mmdet_patch mmengine mmengine_patch numpy
    numpy_patch nuscenes optimizer patch patcher profiler tensor torch torch_patch torch_scatter torch_scatter_patch
    """.split()
)
#: Operators and classes that deformkit has nothing in place of.
ABSENT = """
    AddReluFunction AdsFurthestPointSampling AdsFurthestPointSamplingWithDistFunction AdsGroupPoints AdsNms3dNormalFunction
    AdsVoxelPoolingFunction AgentDynamicBatchDataLoader AgentDynamicBatchSampler AgentDynamicDataset AssignScoreWithkFunction
    AssignTargetOfSingleHead BEVPool BEVPoolV2 BEVPoolV3 BalancedRandomResize BorderAlignFunction BoxIouQuadri BoxIouRotated
    BoxesOverlapBev CalAnchorsHeading CapacityBucketingDynamicDataset CartesianToFrenet Collater CylinderQuery
    DeformConv2dFunction DiffIouRotated DrawGaussianToHeatmapFunction DynamicBatchSampler DynamicDataset
    DynamicDistributedSampler DynamicSampler DynamicScatterFunction FusedBiasLeakyReLU GaussianFunction GraphSoftmax
    GridSampler2dV2Function GridSamplerFunction Hypot IndexSelectFunction IndiceData Knn MaxPool2d
    ModulatedDeformConv2dFunction Nms3dFunction Nms3dOnSightFunction PixelGroupFunction PointCloudDynamicDataset
    PointsInBoxAllFunction PointsInBoxFunction Radius RemoveGrid ReplicasDistributedSampler RoIAlignRotatedFunction
    RoIAwarePool3dFunction RoIPointPool3d RoipointPool3d RoipointPool3dFunction ScatterAddFunction ScatterMaxFunction
    ScatterMeanFunction SigmoidFocalLossFunction SparseConv3d SparseConvFunction SparseConvTensor SparseConvolution
    SparseInverseConv3d SparseInverseConvFunction SparseModule SparseSequential SubMConv3d SubMConvFunction
    ThreeInterpolateFunction ThreeNN ToDense UniformBucketingDynamicDataset UniqueFunction UniqueVoxelFunction Voxelization
    assign_score_withk balanced_resize bev_pool bev_pool_v2 bev_pool_v3 border_align box_iou_quadri box_iou_rotated
    boxes_iou_bev boxes_overlap_bev cal_anchors_heading cartesian_to_frenet cylinder_query deform_conv2d
    diff_iou_rotated_2d dynamic_scatter furthest_point_sample_with_dist furthest_point_sampling generate_map
    get_conv_output_size get_deconv_output_size get_inverse_conv_output_size get_voxel_number_from_mean_vfe graph_softmax
    grid_sampler2d_v2 grid_sampler3d_v1 group_points hypot indice_conv indice_inverse_conv indice_subm_conv
    is_sparse_conv is_spconv_module knn min_area_polygons modulated_deform_conv2d nms3d nms3d_normal nms3d_on_sight
    npu_add_relu npu_assign_target_of_single_head npu_batch_matmul npu_bev_pool_v2_backward npu_boxes_overlap_bev
    npu_draw_gaussian_to_heatmap npu_dynamic_scatter npu_fake_tensor_quant npu_fake_tensor_quant_inplace
    npu_fake_tensor_quant_with_axis npu_furthest_point_sampling npu_fused_bias_leaky_relu npu_gaussian npu_group_points
    npu_index_select npu_max_pool2d npu_nms3d npu_nms3d_normal npu_nms3d_on_sight npu_points_in_box npu_points_in_box_all
    npu_rotated_iou npu_rotated_overlaps npu_scatter_mean_grad npu_unique npu_voxel_pooling_train pixel_group points_in_box
    points_in_boxes_all radius roi_align_rotated roiaware_pool3d roipoint_pool3d scatter_add scatter_max scatter_mean
    scatter_nd sigmoid_focal_loss sort_pairs three_interpolate three_nn unique_voxel voxelization
""".split()


def _absent(name: str) -> Any:
    """A class where the original has one, to inherit from and to compare with."""

    def refuse(*arguments: Any, **named: Any) -> Any:
        raise NotImplementedError(
            f"mx_driving.{name}: not in deformkit, which has multi_scale_deformable_attn, deformable_aggregation and "
            "geometric_kernel_attention"
        )

    if name[0].isupper():
        return type(name, (), {"__init__": refuse, "apply": staticmethod(refuse), "__module__": "mx_driving"})
    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def _public(module: types.ModuleType) -> dict[str, Any]:
    return {name: vars(module)[name] for name in module.__all__}


#: What mx_driving and each of its modules, but for mx_driving.patcher, has.
NAMES: dict[str, Any] = {
    **{name: _absent(name) for name in ABSENT},
    **_public(ops),
    "default_patcher_builder": patcher.default_patcher_builder,
    "patch_mmcv_version": patcher.patch_mmcv_version,
}


def _names_of(fullname: str) -> Optional[dict[str, Any]]:
    """What a module holds; None if there is no such module."""
    root, *path = fullname.split(".")
    if root not in ("mx_driving", "ads") or not path:
        return None
    *parents, last = path
    if path[0] == "patcher":
        return _public(patcher) if len(path) == 1 or (len(path) == 2 and last in PATCHER_MODULES) else None
    if not all(parent in PACKAGES or parent == "ops" for parent in parents):
        return None
    if last == "ops":
        return {"__getattr__": lambda name: _submodule(fullname, name)}
    if last in PACKAGES or last in OPERATOR_MODULES and parents or fullname == "mx_driving._C":
        return NAMES
    return None


def _submodule(package: str, name: str) -> types.ModuleType:
    if name not in OPERATOR_MODULES:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return importlib.import_module(f"{package}.{name}")


class _Finder:
    """Finds the modules above, which have no files."""

    @staticmethod
    def find_spec(fullname: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Any:
        if _names_of(fullname) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, _Finder, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: Any) -> None: ...

    @staticmethod
    def exec_module(module: types.ModuleType) -> None:
        vars(module).update(_names_of(module.__name__) or {})


def install() -> None:
    """Makes the modules importable: `import mx_driving.fused`."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
