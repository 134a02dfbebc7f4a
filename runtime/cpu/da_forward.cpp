// Deformable aggregation, forward: from the caller's tensors to a kernel.

#include <algorithm>

#include "runtime/dispatch/dispatch.h"
#include "runtime/interface/da_inputs.h"
#include "runtime/interface/error.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

namespace {

// Anchors a task, so that their sums stay in L2 (256 of 256 channels: 256 KB) while each map comes by once.
constexpr int64_t kMaxAnchorTile = 256;
// Where anchors are fewer than this, the points of one are shared out, but not below this many samples a part. Only shapes
// decide, so that the order of sums does not depend on the number of threads.
constexpr int64_t kFewAnchors = 64;
constexpr int64_t kMinSamplesPerPart = 256;

/// How the points of an anchor are shared out.
struct Parts {
    int64_t count, points;
};

Parts share_points(const DaInputs &a) {
    int64_t parts = 1;
    if (a.B * a.A < kFewAnchors) {
        parts = std::clamp<int64_t>(a.P * a.N / kMinSamplesPerPart, 1, divide_up(kFewAnchors, a.B * a.A));
    }
    const int64_t points = divide_up(a.P, parts);
    return {divide_up(a.P, points), points};
}

/// [B, A, P, N, ...] as [B, A * parts, points * N, ...], the innermost axis dense; copied where the strides or the number of
/// points do not allow it. Points that fill up the last part are zero: at location (0, 0), which takes no part.
OwnedTensor by_parts(const Tensor &tensor, const Parts &parts) {
    const auto arrange = [&](const Tensor &t) {
        const Tensor joined = t.join_axes(2);
        return parts.count == 1 ? joined : joined.split_axis(2, parts.points * t.shape[3]).join_axes(1);
    };
    const auto in_place = [&] {
        if (!tensor.can_join_axes(2) || parts.count * parts.points != tensor.shape[2] || !fits_buffer(tensor)) {
            return false;
        }
        if (parts.count > 1 && !tensor.join_axes(2).split_axis(2, parts.points * tensor.shape[3]).can_join_axes(1)) {
            return false;
        }
        const Tensor arranged = arrange(tensor);
        // A location is two numbers, and the next one follows.
        return dense(arranged, arranged.ndim - 1) && (arranged.ndim > 4 || arranged.shape[2] <= 1 || arranged.strides[2] == 2);
    };
    if (in_place()) {
        return {arrange(tensor), Scratch()};
    }
    const int64_t points = tensor.shape[2];
    Tensor padded = tensor;
    padded.shape[2] = parts.count * parts.points;
    OwnedTensor copy = allocate_like(padded);
    copy_elements(tensor, slice(copy.tensor, 2, 0, points));
    fill_zero(slice(copy.tensor, 2, points, padded.shape[2] - points));
    copy.tensor = arrange(copy.tensor);
    return copy;
}

void forward_batches(const Variant &variant, const DaInputs &a, const Tensor &all_output, LevelTable &table, int64_t first,
                     int64_t count) {
    const Cells maps = prepare_maps(a, table, variant, first, count);
    const Parts parts = share_points(a);
    const OwnedTensor locations = by_parts(slice(a.sample_locations, 0, first, count), parts);
    const OwnedTensor weights = by_parts(slice(a.weights, 0, first, count), parts);
    const Tensor target = slice(all_output, 0, first, count);
    const Output output(target, variant);

    int32_t anchor_tile = static_cast<int32_t>(a.A), part_tile = 1;
    if (parts.count == 1) {
        const int64_t tiles = divide_up(2 * num_threads(), count);
        anchor_tile = static_cast<int32_t>(std::clamp<int64_t>(divide_up(a.A, tiles), 1, kMaxAnchorTile));
        part_tile = anchor_tile;
    }
    Buffer maps_buffer(maps.tensor), table_buffer(table_tensor(table)), locations_buffer(locations.tensor);
    Buffer weights_buffer(weights.tensor), output_buffer(output.tensor());
    maps_buffer.flatten_keys(2);
    int32_t num_keys = maps.num_keys, key_step = maps.key_step, num_cameras = static_cast<int32_t>(a.N);
    int32_t num_parts = static_cast<int32_t>(parts.count);
    bool careful = table.careful;
    void *args[] = {maps_buffer.get(),    table_buffer.get(), locations_buffer.get(),
                    weights_buffer.get(), &num_keys,          &key_step,
                    &num_cameras,         &num_parts,         &careful,
                    &anchor_tile,         &part_tile,         output_buffer.get()};
    run_kernel(variant, args, {});
    output.finish();
}

void forward(const DaInputs &a, const Tensor &output) {
    const Variant &variant = choose_variant("da_forward", a.feature_maps.dtype);
    set_last_variant("");
    if (output.empty()) {
        return;
    }
    if (a.nothing_to_sample()) {
        fill_zero(output);
        return;
    }
    LevelTable table = make_map_table(a);
    const int64_t step = batches_at_once(a, table, output);
    for (int64_t first = 0; first < a.B; first += step) {
        forward_batches(variant, a, output, table, first, std::min(step, a.B - first));
    }
    set_last_variant(variant.name);
}

}  // namespace

}  // namespace deformkit

deformkit_status deformkit_deformable_aggregation_forward(const DLTensor *feature_maps, const DLTensor *spatial_shape,
                                                          const DLTensor *scale_start_index, const DLTensor *sample_locations,
                                                          const DLTensor *weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        const DaInputs a = view_da_inputs(feature_maps, spatial_shape, scale_start_index, sample_locations, weights);
        const Tensor anchors = view_anchors("output", output, a);
        require_no_overlap(anchors, {&a.feature_maps, &a.spatial_shape, &a.scale_start_index, &a.sample_locations, &a.weights});
        forward(a, anchors);
    });
}
