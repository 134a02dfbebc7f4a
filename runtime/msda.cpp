// Multi-scale deformable attention: from the caller's tensors to a kernel.

#include "msda.h"

#include <algorithm>

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
// A head-by-head copy of value pays where each cell is read often enough. Break-even measured near 10 reads a cell.
constexpr int64_t kReadsPerCellToPack = 16;
constexpr int64_t kMaxPackedBytes = int64_t{64} << 20;
// Less than about 20 us of work is not worth waking a thread for.
constexpr int64_t kMinSamplesPerTask = 4096;
constexpr int64_t kMaxQueryTile = 1024;

using Sizes = MsdaSizes;
using Arguments = MsdaForwardArguments;

Arguments validate(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                   const DLTensor *sampling_locations, const DLTensor *attention_weights, const DLTensor *output) {
    Arguments a;
    a.value = view("value", value, {4});
    a.spatial_shapes = view("spatial_shapes", spatial_shapes, {2});
    a.level_start_index = view("level_start_index", level_start_index, {1});
    a.sampling_locations = view("sampling_locations", sampling_locations, {6});
    a.attention_weights = view("attention_weights", attention_weights, {5});
    a.output = view("output", output, {3, 4});

    require_index_dtype(a.spatial_shapes);
    require_index_dtype(a.level_start_index);
    for (const Tensor *tensor : {&a.sampling_locations, &a.attention_weights, &a.output}) {
        require_same_dtype(*tensor, a.value);
    }

    a.n = {a.value.shape[0],
           a.value.shape[1],
           a.value.shape[2],
           a.value.shape[3],
           a.sampling_locations.shape[1],
           a.spatial_shapes.shape[0],
           a.sampling_locations.shape[4]};
    require_extent(a.spatial_shapes, 1, 2, "height and width");
    require_extent(a.level_start_index, 0, a.n.L, "L = spatial_shapes.shape[0]");
    require_extent(a.sampling_locations, 0, a.n.B, "B = value.shape[0]");
    require_extent(a.sampling_locations, 2, a.n.M, "M = value.shape[2]");
    require_extent(a.sampling_locations, 3, a.n.L, "L = spatial_shapes.shape[0]");
    require_extent(a.sampling_locations, 5, 2, "x and y");
    require_extent(a.attention_weights, 0, a.n.B, "B = value.shape[0]");
    require_extent(a.attention_weights, 1, a.n.Q, "Q = sampling_locations.shape[1]");
    require_extent(a.attention_weights, 2, a.n.M, "M = value.shape[2]");
    require_extent(a.attention_weights, 3, a.n.L, "L = spatial_shapes.shape[0]");
    require_extent(a.attention_weights, 4, a.n.P, "P = sampling_locations.shape[4]");
    require_extent(a.output, 0, a.n.B, "B = value.shape[0]");
    require_extent(a.output, 1, a.n.Q, "Q = sampling_locations.shape[1]");
    if (a.output.ndim == 3) {
        require_extent(a.output, 2, a.n.M * a.n.D, "M * D of value");
        a.output = a.output.split_axis(2, a.n.D);
    } else {
        require_extent(a.output, 2, a.n.M, "M = value.shape[2]");
        require_extent(a.output, 3, a.n.D, "D = value.shape[3]");
    }
    require_no_overlap(a.output,
                       {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights});
    return a;
}

bool dense(const Tensor &tensor, int axis) {
    return tensor.shape[axis] <= 1 || tensor.strides[axis] == 1;
}

/// Whether a kernel's buffer can lie over `tensor`. Copies to and from a device know no steps backwards or in place.
bool addressable(const Tensor &tensor, const Variant &variant) {
    for (int i = 0; variant.gpu && i < tensor.ndim; i++) {
        if (tensor.shape[i] > 1 && tensor.strides[i] <= 0) {
            return false;
        }
    }
    return fits_buffer(tensor);
}

Tensor join(const Tensor &tensor) {
    return tensor.join_axes(3).join_axes(2);
}

/// Whether the samples of all heads can be joined where they are, dense.
bool joins_in_place(const Tensor &tensor, const Variant &variant) {
    if (!addressable(tensor, variant) || !tensor.can_join_axes(3) || !tensor.join_axes(3).can_join_axes(2)) {
        return false;
    }
    const Tensor joined = join(tensor);
    const int64_t step = joined.ndim == 3 ? 1 : 2;
    return dense(joined, joined.ndim - 1) && (joined.shape[2] <= 1 || joined.strides[2] == step);
}

/// [B, Q, M, L, P] as [B, Q, M * L * P], or [B, Q, M, L, P, 2] as [B, Q, M * L * P, 2], copied where the strides do not allow
/// it.
OwnedTensor join_samples(const Tensor &tensor, const Variant &variant) {
    if (joins_in_place(tensor, variant)) {
        return {join(tensor), Scratch()};
    }
    OwnedTensor copy = allocate_like(tensor);
    copy_elements(tensor, copy.tensor);
    copy.tensor = join(copy.tensor);
    return copy;
}

Tensor batches(const Tensor &tensor, int64_t first, int64_t count) {
    Tensor part = tensor;
    part.data += first * tensor.strides[0] * tensor.element_bytes();
    part.shape[0] = count;
    return part;
}

int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/// How some batch items of a call run.
struct Plan {
    int64_t K, D;               ///< extents of value as the kernel sees it
    const Variant *head_major;  ///< runs in place of the variant, or nullptr
    bool pack_value, copy_output;
    int32_t query_tile;
};

Plan plan_batches(const Variant &variant, const Arguments &a, int64_t count) {
    const Sizes &n = a.n;
    const int64_t S = n.L * n.P;
    Plan plan;
    plan.K = std::max<int64_t>(n.K, 2);
    plan.D = divide_up(n.D, kChannelMultiple) * kChannelMultiple;
    const Tensor value = batches(a.value, 0, count), output = batches(a.output, 0, count);
    const bool pays = n.Q * S * 4 >= n.K * kReadsPerCellToPack;
    plan.head_major = pays ? companion(variant, "msda_forward_head_major") : nullptr;
    plan.pack_value = plan.head_major != nullptr || !dense(value, 3) || n.D != plan.D || n.K != plan.K ||
                      !addressable(value, variant) || value.strides[1] < 0 || (plan.K - 1) * value.strides[1] >= INT32_MAX;
    plan.copy_output = !dense(output, 3) || !addressable(output, variant);

    // Enough tasks for the threads to share evenly, but large enough to reuse what is in the caches.
    const int64_t per_thread = plan.head_major != nullptr ? 4 : 1;
    const int64_t tiles = divide_up(num_threads() * per_thread, count);
    const int64_t smallest = divide_up(kMinSamplesPerTask, std::max<int64_t>(n.M * S, 1));
    plan.query_tile = static_cast<int32_t>(
        std::min(n.Q, std::clamp(divide_up(n.Q, tiles), std::min(smallest, kMaxQueryTile), kMaxQueryTile)));
    return plan;
}

void forward_batches(const Variant &variant, const Arguments &a, const Tensor &table, bool careful, int64_t first,
                     int64_t count) {
    const Sizes &n = a.n;
    const int64_t S = n.L * n.P;
    Plan plan = plan_batches(variant, a, count);
    const int64_t K = plan.K, D = plan.D;

    Tensor value = batches(a.value, first, count);
    OwnedTensor packed_value;
    if (plan.pack_value) {
        packed_value = allocate_like(value, {0, 2, 1, 3}, {count, K, n.M, D});
        copy_elements(value, packed_value.tensor);
        value = packed_value.tensor;
    }
    const OwnedTensor locations = join_samples(batches(a.sampling_locations, first, count), variant);
    const OwnedTensor weights = join_samples(batches(a.attention_weights, first, count), variant);
    Tensor output = batches(a.output, first, count);
    OwnedTensor packed_output;
    if (plan.copy_output) {
        packed_output = allocate_like(output);
    }

    Buffer value_buffer(value), table_buffer(table), locations_buffer(locations.tensor), weights_buffer(weights.tensor);
    Buffer output_buffer(plan.copy_output ? packed_output.tensor : output);
    value_buffer.set_axis(0, D, 1);
    // CPU kernels address cells by their distance in elements: an axis of stride 1 that spans all keys.
    int32_t num_keys = static_cast<int32_t>(K), key_step = 1;
    if (variant.gpu) {
        value_buffer.set_axis(2, K, value.strides[1]);
    } else {
        key_step = static_cast<int32_t>(value.strides[1]);
        value_buffer.set_axis(2, (K - 1) * value.strides[1] + 1, 1);
    }
    int32_t num_samples = static_cast<int32_t>(S);
    void *args[] = {value_buffer.get(), table_buffer.get(), locations_buffer.get(), weights_buffer.get(),
                    &num_keys,          &key_step,          &num_samples,           &careful,
                    &plan.query_tile,   output_buffer.get()};
    run_kernel(plan.head_major != nullptr ? *plan.head_major : variant, args,
               {value_buffer.get(), table_buffer.get(), locations_buffer.get(), weights_buffer.get(), output_buffer.get()});
    if (plan.copy_output) {
        copy_elements(packed_output.tensor, output);
    }
}

/// Cells are addressed by 32 bits. Where value is larger, what lies before the first level and behind the last can go.
void drop_unused_keys(Arguments &a, LevelTable &levels) {
    if (levels.careful || (a.n.K - 1) * std::abs(a.value.strides[1]) < INT32_MAX) {
        return;
    }
    int64_t begin = a.n.K, end = 0;
    int32_t *widths = levels.rows, *heights = widths + levels.columns, *first_keys = heights + levels.columns;
    for (int64_t i = 0; i < levels.columns; i++) {
        if (widths[i] > 0) {
            begin = std::min<int64_t>(begin, first_keys[i]);
            end = std::max(end, first_keys[i] + static_cast<int64_t>(widths[i]) * heights[i]);
        }
    }
    if (begin >= end) {
        return;
    }
    for (int64_t i = 0; i < levels.columns; i++) {
        first_keys[i] -= widths[i] > 0 ? static_cast<int32_t>(begin) : 0;
    }
    a.value.data += begin * a.value.strides[1] * a.value.element_bytes();
    a.n.K = a.value.shape[1] = end - begin;
}

/// Batch items that one run of the kernel takes.
int64_t batches_per_run(const Arguments &a) {
    const Sizes &n = a.n;
    const int64_t batch_bytes = std::max<int64_t>(1, n.K * n.M * n.D * a.value.element_bytes());
    bool fits = true;
    for (const Tensor *tensor : {&a.value, &a.sampling_locations, &a.attention_weights, &a.output}) {
        fits &= tensor->shape[0] <= 1 || std::abs(tensor->strides[0]) <= INT32_MAX;
    }
    return fits ? std::clamp<int64_t>(kMaxPackedBytes / batch_bytes, 1, n.B) : 1;
}

bool needs_no_kernel(const Arguments &a) {
    return a.output.empty() || a.n.K == 0 || a.n.L == 0 || a.n.P == 0;
}

}  // namespace

MsdaForwardArguments msda_forward_arguments(const DLTensor *value, const DLTensor *spatial_shapes,
                                            const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                            const DLTensor *attention_weights, const DLTensor *output) {
    return validate(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output);
}

WorkspaceSize msda_forward_workspace(const MsdaForwardArguments &a) {
    const Variant &variant = choose_variant("msda_forward", a.value.dtype);
    if (needs_no_kernel(a)) {
        return {};
    }
    const Sizes &n = a.n;
    const int64_t S = n.L * n.P, count = batches_per_run(a);
    const Plan plan = plan_batches(variant, a, count);
    const int64_t storage = a.value.element_bytes(), arithmetic = std::max<int64_t>(storage, 4);

    WorkspaceSize size;
    size.lanes = num_threads();
    size.call_bytes = workspace_block(level_table_bytes(n.M * S));
    if (plan.pack_value) {
        size.call_bytes += workspace_block(count * plan.K * n.M * plan.D * storage);
    }
    for (const Tensor *tensor : {&a.sampling_locations, &a.attention_weights}) {
        const Tensor part = batches(*tensor, 0, count);
        if (!joins_in_place(part, variant)) {
            size.call_bytes += workspace_block(part.elements() * storage);
        }
    }
    if (plan.copy_output) {
        size.call_bytes += workspace_block(count * n.Q * n.M * n.D * storage);
    }
    // What the kernels keep for a tile of queries: six fields a tap, and sums; for one query and head, sums that are not
    // complete, exact ones, and whether they are suspect.
    const int64_t tile = plan.query_tile * n.M;
    size.lane_bytes = workspace_block(6 * S * tile * arithmetic) + workspace_block(plan.D * tile * arithmetic) +
                      2 * workspace_block(plan.D * arithmetic) + workspace_block(n.M);
    return size;
}

void msda_forward(MsdaForwardArguments a) {
    const Variant &variant = choose_variant("msda_forward", a.value.dtype);
    set_last_variant("");
    const Sizes &n = a.n;
    if (needs_no_kernel(a)) {
        fill_zero(a.output);
        return;
    }
    LevelTable levels = make_level_table(a.spatial_shapes, a.level_start_index, n.M, n.P, n.K);
    drop_unused_keys(a, levels);
    Tensor table;
    table.name = "level_table";
    table.data = reinterpret_cast<unsigned char *>(levels.rows);
    table.dtype = {kDLInt, 32, 1};
    table.ndim = 2;
    table.shape = {3, levels.columns};
    table.strides = {levels.columns, 1};

    const int64_t step = batches_per_run(a);
    for (int64_t first = 0; first < n.B; first += step) {
        forward_batches(variant, a, table, levels.careful, first, std::min(step, n.B - first));
    }
    set_last_variant(variant.name);
}

}  // namespace deformkit

deformkit_status deformkit_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                        const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                        const DLTensor *attention_weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        msda_forward(validate(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output));
    });
}
