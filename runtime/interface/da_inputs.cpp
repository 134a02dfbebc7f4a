// Deformable aggregation: arguments, and feature maps as kernels read them.
#include "runtime/interface/da_inputs.h"

#include <algorithm>
#include <string>

#include "runtime/interface/error.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

namespace {

constexpr int64_t kMaxPackedBytes = int64_t{64} << 20;

/// Cameras and scales joined.
OwnedTensor joined(const Tensor &tensor) {
    if (tensor.can_join_axes(0)) {
        return {tensor.join_axes(0), Scratch()};
    }
    OwnedTensor copy = allocate_like(tensor);
    copy_elements(tensor, copy.tensor);
    copy.tensor = copy.tensor.join_axes(0);
    return copy;
}

}  // namespace

DaInputs view_da_inputs(const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
                        const DLTensor *sample_locations, const DLTensor *weights) {
    DaInputs a;
    a.feature_maps = view("feature_maps", feature_maps, {3});
    a.spatial_shape = view("spatial_shape", spatial_shape, {3});
    a.scale_start_index = view("scale_start_index", scale_start_index, {2});
    a.sample_locations = view("sample_locations", sample_locations, {5});
    a.weights = view("weights", weights, {6});
    a.B = a.feature_maps.shape[0];
    a.K = a.feature_maps.shape[1];
    a.A = a.sample_locations.shape[1];
    a.P = a.sample_locations.shape[2];
    a.N = a.spatial_shape.shape[0];
    a.S = a.spatial_shape.shape[1];
    a.G = a.weights.shape[5];

    require_storage_dtype(a.feature_maps);
    require_index_dtype(a.spatial_shape);
    require_index_dtype(a.scale_start_index);
    require_same_dtype(a.sample_locations, a.feature_maps);
    require_same_dtype(a.weights, a.feature_maps);
    require_extent(a.spatial_shape, 2, 2, "height and width");
    require_extent(a.scale_start_index, 0, a.N, "cameras = spatial_shape.shape[0]");
    require_extent(a.scale_start_index, 1, a.S, "scales = spatial_shape.shape[1]");
    require_extent(a.sample_locations, 0, a.B, "B = feature_maps.shape[0]");
    require_extent(a.sample_locations, 3, a.N, "cameras = spatial_shape.shape[0]");
    require_extent(a.sample_locations, 4, 2, "x and y");
    require_extent(a.weights, 0, a.B, "B = feature_maps.shape[0]");
    require_extent(a.weights, 1, a.A, "anchors = sample_locations.shape[1]");
    require_extent(a.weights, 2, a.P, "points = sample_locations.shape[2]");
    require_extent(a.weights, 3, a.N, "cameras = spatial_shape.shape[0]");
    require_extent(a.weights, 4, a.S, "scales = spatial_shape.shape[1]");
    const int64_t channels = a.feature_maps.shape[2];
    if (a.G == 0 ? channels != 0 : channels % a.G != 0) {
        throw Failure(DEFORMKIT_WRONG_SHAPE, "weights: expected a number of groups, shape[5], that divides the channels, " +
                                                 std::to_string(channels) + " = feature_maps.shape[2], got " +
                                                 std::to_string(a.G));
    }
    a.D = a.G == 0 ? 0 : channels / a.G;
    a.feature_maps = a.feature_maps.split_axis(2, a.D);
    a.feature_maps.shape[2] = a.G;
    return a;
}

Tensor view_anchors(const char *name, const DLTensor *tensor, const DaInputs &a) {
    Tensor anchors = view(name, tensor, {3});
    require_same_dtype(anchors, a.feature_maps);
    require_extent(anchors, 0, a.B, "B = feature_maps.shape[0]");
    require_extent(anchors, 1, a.A, "anchors = sample_locations.shape[1]");
    require_extent(anchors, 2, a.G * a.D, "C = feature_maps.shape[2]");
    anchors = anchors.split_axis(2, a.D);
    anchors.shape[2] = a.G;
    return anchors;
}

LevelTable make_map_table(const DaInputs &a) {
    LevelTable table = make_level_table(joined(a.spatial_shape).tensor, joined(a.scale_start_index).tensor, 1, 1, a.K);
    table.careful = table.careful || has_empty(table);
    return table;
}

Cells prepare_maps(const DaInputs &a, const LevelTable &table, const Variant &variant, int64_t first, int64_t count) {
    return prepare_cells(slice(a.feature_maps, 0, first, count), variant, {}, {0, 1, 2, 3}, a.K + (table.careful ? 1 : 0));
}

int64_t batches_at_once(const DaInputs &a, const LevelTable &table, const Tensor &output) {
    bool in_place = dense(a.feature_maps, 3) && a.D % kChannelMultiple == 0 && !table.careful;
    for (const Tensor *tensor : {&a.feature_maps, &a.sample_locations, &a.weights, &output}) {
        in_place &= fits_buffer(*tensor);
    }
    const int64_t batch_bytes =
        std::max<int64_t>(1, a.K * a.G * round_up(a.D, kChannelMultiple) * a.feature_maps.element_bytes());
    return in_place ? a.B : std::clamp<int64_t>(kMaxPackedBytes / batch_bytes, 1, a.B);
}

}  // namespace deformkit
