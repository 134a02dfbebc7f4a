// Deformable aggregation: from the caller's tensors to a kernel.

#include <algorithm>
#include <numeric>
#include <vector>

#include "buffer.h"
#include "dispatch.h"
#include "error.h"
#include "levels.h"
#include "pack.h"
#include "parallel.h"
#include "tensor.h"

namespace deformkit {

namespace {

// Kernels read whole vectors of channels: the widest holds this many.
constexpr int64_t kChannelMultiple = 16;
constexpr int64_t kMaxPackedBytes = int64_t{64} << 20;
// Anchors a task, so that their sums stay in L2 (256 of 256 channels: 256 KB) while each map comes by once.
constexpr int64_t kMaxAnchorTile = 256;
// Where anchors are fewer than this, the points of one are shared out, but not below this many samples a part. Only shapes
// decide, so that the order of sums does not depend on the number of threads.
constexpr int64_t kFewAnchors = 64;
constexpr int64_t kMinSamplesPerPart = 256;

struct Sizes {
    int64_t B, K, C, A, P, N, S, G;
};

struct Arguments {
    Tensor feature_maps;       // [B, K, C]
    Tensor spatial_shape;      // [N, S, 2]
    Tensor scale_start_index;  // [N, S]
    Tensor sample_locations;   // [B, A, P, N, 2]
    Tensor weights;            // [B, A, P, N, S, G]
    Tensor output;             // [B, A, C]
    Sizes n;
};

int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

Arguments validate(const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
                   const DLTensor *sample_locations, const DLTensor *weights, const DLTensor *output) {
    Arguments a;
    a.feature_maps = view("feature_maps", feature_maps, {3});
    a.spatial_shape = view("spatial_shape", spatial_shape, {3});
    a.scale_start_index = view("scale_start_index", scale_start_index, {2});
    a.sample_locations = view("sample_locations", sample_locations, {5});
    a.weights = view("weights", weights, {6});
    a.output = view("output", output, {3});

    require_index_dtype(a.spatial_shape);
    require_index_dtype(a.scale_start_index);
    for (const Tensor *tensor : {&a.sample_locations, &a.weights, &a.output}) {
        require_same_dtype(*tensor, a.feature_maps);
    }

    a.n = {a.feature_maps.shape[0],     a.feature_maps.shape[1],  a.feature_maps.shape[2],  a.sample_locations.shape[1],
           a.sample_locations.shape[2], a.spatial_shape.shape[0], a.spatial_shape.shape[1], a.weights.shape[5]};
    require_extent(a.spatial_shape, 2, 2, "height and width");
    require_extent(a.scale_start_index, 0, a.n.N, "cameras = spatial_shape.shape[0]");
    require_extent(a.scale_start_index, 1, a.n.S, "scales = spatial_shape.shape[1]");
    require_extent(a.sample_locations, 0, a.n.B, "B = feature_maps.shape[0]");
    require_extent(a.sample_locations, 3, a.n.N, "cameras = spatial_shape.shape[0]");
    require_extent(a.sample_locations, 4, 2, "x and y");
    require_extent(a.weights, 0, a.n.B, "B = feature_maps.shape[0]");
    require_extent(a.weights, 1, a.n.A, "anchors = sample_locations.shape[1]");
    require_extent(a.weights, 2, a.n.P, "points = sample_locations.shape[2]");
    require_extent(a.weights, 3, a.n.N, "cameras = spatial_shape.shape[0]");
    require_extent(a.weights, 4, a.n.S, "scales = spatial_shape.shape[1]");
    if (a.n.G == 0 ? a.n.C != 0 : a.n.C % a.n.G != 0) {
        throw Failure(DEFORMKIT_WRONG_SHAPE, "weights: expected a number of groups (shape[5]) that divides feature_maps.shape[2] = " +
                                                 std::to_string(a.n.C) + ", got " + std::to_string(a.n.G));
    }
    require_extent(a.output, 0, a.n.B, "B = feature_maps.shape[0]");
    require_extent(a.output, 1, a.n.A, "anchors = sample_locations.shape[1]");
    require_extent(a.output, 2, a.n.C, "C = feature_maps.shape[2]");
    require_no_overlap(a.output, {&a.feature_maps, &a.spatial_shape, &a.scale_start_index, &a.sample_locations, &a.weights});
    return a;
}

bool dense(const Tensor &tensor, int axis) {
    return tensor.shape[axis] <= 1 || tensor.strides[axis] == 1;
}

Tensor batches(const Tensor &tensor, int64_t first, int64_t count) {
    Tensor part = tensor;
    part.data += first * tensor.strides[0] * tensor.element_bytes();
    part.shape[0] = count;
    return part;
}

/// How the points of an anchor are shared out.
struct Parts {
    int64_t count, points;
};

Parts share_points(const Sizes &n) {
    int64_t parts = 1;
    if (n.B * n.A < kFewAnchors) {
        parts = std::clamp<int64_t>(n.P * n.N / kMinSamplesPerPart, 1, divide_up(kFewAnchors, n.B * n.A));
    }
    const int64_t points = divide_up(n.P, parts);
    return {divide_up(n.P, points), points};
}

/// [B, A, P, N, ...] as [B, A * parts, points * N, ...], the innermost axis dense; copied where the strides or the number of points
/// do not allow it. Points that fill up the last part are zero: at location (0, 0), which takes no part.
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
    std::vector<int> order(tensor.ndim);
    std::iota(order.begin(), order.end(), 0);
    std::vector<int64_t> extents(tensor.shape.begin(), tensor.shape.begin() + tensor.ndim);
    extents[2] = parts.count * parts.points;
    OwnedTensor copy = allocate_like(tensor, order, extents);
    copy_elements(tensor, copy.tensor);
    copy.tensor.shape[2] = extents[2];
    copy.tensor = arrange(copy.tensor);
    return copy;
}

struct MapTable {
    LevelTable levels;
    Tensor tensor;  // [3, N * S]
    bool careful;   // some map is empty or has cells outside [0, K)
};

OwnedTensor joined(const Tensor &tensor) {
    if (tensor.can_join_axes(0)) {
        return {tensor.join_axes(0), Scratch()};
    }
    OwnedTensor copy = allocate_like(tensor, tensor.ndim == 3 ? std::vector<int>{0, 1, 2} : std::vector<int>{0, 1});
    copy_elements(tensor, copy.tensor);
    copy.tensor = copy.tensor.join_axes(0);
    return copy;
}

MapTable make_map_table(const Arguments &a) {
    MapTable table;
    table.levels = make_level_table(joined(a.spatial_shape).tensor, joined(a.scale_start_index).tensor, 1, 1, a.n.K);
    const auto widths = table.levels.rows.begin();
    table.careful = table.levels.careful || std::count(widths, widths + table.levels.columns, 0) > 0;
    table.tensor.name = "map_table";
    table.tensor.data = reinterpret_cast<unsigned char *>(table.levels.rows.data());
    table.tensor.dtype = {kDLInt, 32, 1};
    table.tensor.ndim = 2;
    table.tensor.shape = {3, table.levels.columns};
    table.tensor.strides = {table.levels.columns, 1};
    return table;
}

void forward_batches(const Variant &variant, const Arguments &a, const MapTable &table, int64_t first, int64_t count) {
    const Sizes &n = a.n;
    const int64_t K = n.K + (table.careful ? 1 : 0), C = divide_up(n.C, kChannelMultiple) * kChannelMultiple;

    Tensor maps = batches(a.feature_maps, first, count);
    OwnedTensor packed_maps;
    if (!dense(maps, 2) || n.C != C || n.K != K || !fits_buffer(maps) || maps.strides[1] < 0 ||
        (K - 1) * maps.strides[1] >= INT32_MAX) {
        packed_maps = allocate_like(maps, {0, 1, 2}, {count, K, C});
        copy_elements(maps, packed_maps.tensor);
        maps = packed_maps.tensor;
    }
    const Parts parts = share_points(n);
    const OwnedTensor locations = by_parts(batches(a.sample_locations, first, count), parts);
    const OwnedTensor weights = by_parts(batches(a.weights, first, count), parts);
    Tensor output = batches(a.output, first, count);
    OwnedTensor packed_output;
    const bool copy_output = !dense(output, 2) || !fits_buffer(output);
    if (copy_output) {
        packed_output = allocate_like(output, {0, 1, 2});
    }

    int32_t anchor_tile = static_cast<int32_t>(n.A), part_tile = 1;
    if (parts.count == 1) {
        const int64_t tiles = divide_up(2 * num_threads(), count);
        anchor_tile = static_cast<int32_t>(std::clamp<int64_t>(divide_up(n.A, tiles), 1, kMaxAnchorTile));
        part_tile = anchor_tile;
    }
    Buffer maps_buffer(maps), table_buffer(table.tensor), locations_buffer(locations.tensor), weights_buffer(weights.tensor);
    Buffer output_buffer(copy_output ? packed_output.tensor : output);
    maps_buffer.set_axis(0, C, 1);
    maps_buffer.set_axis(1, (K - 1) * maps.strides[1] + 1, 1);
    int32_t channels_per_group = static_cast<int32_t>(n.C / n.G), num_keys = static_cast<int32_t>(K);
    int32_t key_step = static_cast<int32_t>(maps.strides[1]), num_cameras = static_cast<int32_t>(n.N);
    int32_t num_parts = static_cast<int32_t>(parts.count);
    bool careful = table.careful;
    void *args[] = {maps_buffer.get(),  table_buffer.get(), locations_buffer.get(), weights_buffer.get(), &channels_per_group,
                    &num_keys,          &key_step,          &num_cameras,           &num_parts,           &careful,
                    &anchor_tile,       &part_tile,         output_buffer.get()};
    run_kernel(variant, args,
               {maps_buffer.get(), table_buffer.get(), locations_buffer.get(), weights_buffer.get(), output_buffer.get()});
    if (copy_output) {
        copy_elements(packed_output.tensor, output);
    }
}

void forward(const Arguments &a) {
    const Variant &variant = choose_variant("da_forward", a.feature_maps.dtype);
    set_last_variant("");
    if (a.output.empty()) {
        return;
    }
    const Sizes &n = a.n;
    if (n.K == 0 || n.P == 0 || n.N == 0 || n.S == 0) {
        fill_zero(a.output);
        return;
    }
    const MapTable table = make_map_table(a);

    const int64_t batch_bytes = std::max<int64_t>(1, n.K * n.C * a.feature_maps.element_bytes());
    bool in_place = dense(a.feature_maps, 2) && n.C % kChannelMultiple == 0 && !table.careful;
    for (const Tensor *tensor : {&a.feature_maps, &a.sample_locations, &a.weights, &a.output}) {
        in_place &= fits_buffer(*tensor);
    }
    const int64_t step = in_place ? n.B : std::clamp<int64_t>(kMaxPackedBytes / batch_bytes, 1, n.B);
    for (int64_t first = 0; first < n.B; first += step) {
        forward_batches(variant, a, table, first, std::min(step, n.B - first));
    }
    set_last_variant(variant.name);
}

}  // namespace

}  // namespace deformkit

deformkit_status deformkit_deformable_aggregation_forward(const DLTensor *feature_maps, const DLTensor *spatial_shape,
                                                          const DLTensor *scale_start_index, const DLTensor *sample_locations,
                                                          const DLTensor *weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] { forward(validate(feature_maps, spatial_shape, scale_start_index, sample_locations, weights, output)); });
}
