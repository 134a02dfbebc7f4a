#include "runtime/interface/da.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"
#include "runtime/interface/used_keys.h"

namespace deformkit {

Level DaInputs::level(int64_t map) const {
    const int64_t n = map / S, s = map % S;
    Level level = {read_index(spatial_shape, n, s, 0), read_index(spatial_shape, n, s, 1), read_index(scale_start_index, n, s)};
    // Where keys were dropped, all cells have a key: only of a map without cells may the first be any number.
    level.first_key -= level.empty() ? 0 : first_key;
    return level;
}

namespace {

/// Those that lie in memory: however many are claimed, no more need be looked at.
class DistinctMaps {
public:
    explicit DistinctMaps(const DaInputs &a) : a_(a), cameras_(distinct(0, a.N)), scales_(distinct(1, a.S)) {}
    int64_t count() const { return cameras_ * scales_; }
    Level level(int64_t i) const { return a_.level(i / scales_ * a_.S + i % scales_); }

private:
    int64_t distinct(int axis, int64_t extent) const {
        return a_.spatial_shape.strides[axis] == 0 && a_.scale_start_index.strides[axis] == 0 ? 1 : extent;
    }

    const DaInputs &a_;
    int64_t cameras_, scales_;
};

/// [.., .., C] as [.., .., G, D]; also where there are no channels.
Tensor by_groups(const Tensor &tensor, const DaInputs &a) {
    Tensor split = tensor.split_axis(2, a.D);
    split.shape[2] = a.G;
    return split;
}

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

    require_same_device({&a.spatial_shape, &a.scale_start_index, &a.sample_locations, &a.weights}, a.feature_maps);
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
    if (product({a.N, a.S}) > kMostOfAxis) {
        fail(DEFORMKIT_WRONG_SHAPE, a.spatial_shape.name, "less than 2^31 maps", layout_text(a.spatial_shape));
    }
    a.feature_maps = by_groups(a.feature_maps, a);
    return a;
}

/// The output or its gradient, [B, A, C], as [B, A, G, D].
Tensor view_anchors(const char *name, const DLTensor *tensor, const DaInputs &a) {
    const Tensor anchors = view(name, tensor, {3});
    require_same_device({&anchors}, a.feature_maps);
    require_same_dtype(anchors, a.feature_maps);
    require_extent(anchors, 0, a.B, "B = feature_maps.shape[0]");
    require_extent(anchors, 1, a.A, "anchors = sample_locations.shape[1]");
    require_extent(anchors, 2, product({a.G, a.D}), "C = feature_maps.shape[2]");
    return by_groups(anchors, a);
}

}  // namespace

void drop_unused_keys(DaInputs &a) {
    const int64_t step = std::max(std::abs(a.feature_maps.strides[1]), product({a.G, round_up(a.D, kChannelMultiple)}));
    if (a.is_empty() || a.feature_maps.empty() || keys_addressable(a.K, step)) {
        return;
    }
    const DistinctMaps maps(a);
    const KeyRange used = used_keys(
        maps.count(), [&](int64_t i) { return maps.level(i); }, a.K);
    a.feature_maps = slice(a.feature_maps, 1, used.first, used.count);
    a.K = used.count;
    a.first_key = used.first;
}

DaForwardCall check_da_forward(const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
                               const DLTensor *sample_locations, const DLTensor *weights, const DLTensor *output) {
    DaForwardCall call;
    call.inputs = view_da_inputs(feature_maps, spatial_shape, scale_start_index, sample_locations, weights);
    const DaInputs &a = call.inputs;
    call.output = view_anchors("output", output, a);
    require_no_overlap(call.output, {&a.feature_maps, &a.spatial_shape, &a.scale_start_index, &a.sample_locations, &a.weights});
    return call;
}

DaBackwardCall check_da_backward(const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
                                 const DLTensor *sample_locations, const DLTensor *weights, const DLTensor *grad_output,
                                 const DLTensor *grad_feature_maps, const DLTensor *grad_sample_locations,
                                 const DLTensor *grad_weights) {
    DaBackwardCall call;
    call.inputs = view_da_inputs(feature_maps, spatial_shape, scale_start_index, sample_locations, weights);
    const DaInputs &a = call.inputs;
    call.grad_output = view_anchors("grad_output", grad_output, a);
    call.grad_feature_maps = view_gradient("grad_feature_maps", grad_feature_maps, view("feature_maps", feature_maps, {3}));
    call.grad_locations = view_gradient("grad_sample_locations", grad_sample_locations, a.sample_locations);
    call.grad_weights = view_gradient("grad_weights", grad_weights, a.weights);
    require_no_overlap(
        {&call.grad_feature_maps, &call.grad_locations, &call.grad_weights},
        {&a.feature_maps, &a.spatial_shape, &a.scale_start_index, &a.sample_locations, &a.weights, &call.grad_output});
    if (call.grad_feature_maps) {
        call.grad_feature_maps = by_groups(*call.grad_feature_maps, a);
    }
    return call;
}

}  // namespace deformkit

deformkit_status deformkit_deformable_aggregation_forward(const DLTensor *feature_maps, const DLTensor *spatial_shape,
                                                          const DLTensor *scale_start_index, const DLTensor *sample_locations,
                                                          const DLTensor *weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        run_on_used_keys(check_da_forward(feature_maps, spatial_shape, scale_start_index, sample_locations, weights, output));
    });
}

deformkit_status deformkit_deformable_aggregation_backward(const DLTensor *feature_maps, const DLTensor *spatial_shape,
                                                           const DLTensor *scale_start_index, const DLTensor *sample_locations,
                                                           const DLTensor *weights, const DLTensor *grad_output,
                                                           DLTensor *grad_feature_maps, DLTensor *grad_sample_locations,
                                                           DLTensor *grad_weights) {
    using namespace deformkit;
    return guarded([&] {
        run_on_used_keys(check_da_backward(feature_maps, spatial_shape, scale_start_index, sample_locations, weights,
                                           grad_output, grad_feature_maps, grad_sample_locations, grad_weights),
                         &DaBackwardCall::grad_feature_maps);
    });
}
