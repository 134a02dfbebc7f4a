// Multi-scale deformable attention: arguments, and value as kernels read it.
#include "runtime/interface/msda_inputs.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/system/workspace.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

namespace {

// Going head by head pays where neighbouring queries share cells, and a head-by-head copy of value where each is read more
// often still: bevformer_tsa, with 16 reads a cell, takes 0.83x the time without the copy, mask2former_1024, with 48, 1.13x
// (Xeon, AVX-512, two threads).
constexpr int64_t kReadsPerCellByHead = 16;
constexpr int64_t kReadsPerCellToPack = 32;
constexpr int64_t kMaxPackedBytes = int64_t{64} << 20;

}  // namespace

bool MsdaInputs::reads_often() const {
    return Q * samples() * 4 >= K * kReadsPerCellByHead;
}

bool MsdaInputs::worth_packing() const {
    return Q * samples() * 4 >= K * kReadsPerCellToPack;
}

MsdaInputs view_msda_inputs(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                            const DLTensor *sampling_locations, const DLTensor *attention_weights, LocationUnit unit) {
    MsdaInputs a;
    a.value = view("value", value, {4});
    a.spatial_shapes = view("spatial_shapes", spatial_shapes, {2});
    a.level_start_index = view("level_start_index", level_start_index, {1});
    a.sampling_locations = view("sampling_locations", sampling_locations, {6});
    a.attention_weights = view("attention_weights", attention_weights, {5});
    a.B = a.value.shape[0];
    a.K = a.value.shape[1];
    a.M = a.value.shape[2];
    a.D = a.value.shape[3];
    a.Q = a.sampling_locations.shape[1];
    a.L = a.spatial_shapes.shape[0];
    a.P = a.sampling_locations.shape[4];

    require_storage_dtype(a.value);
    require_index_dtype(a.spatial_shapes);
    require_index_dtype(a.level_start_index);
    if (unit == LocationUnit::kMap) {
        require_same_dtype(a.sampling_locations, a.value);
    } else {
        require_number_dtype(a.sampling_locations);
    }
    require_same_dtype(a.attention_weights, a.value);
    require_extent(a.spatial_shapes, 1, 2, "height and width");
    require_extent(a.level_start_index, 0, a.L, "L = spatial_shapes.shape[0]");
    require_extent(a.sampling_locations, 0, a.B, "B = value.shape[0]");
    require_extent(a.sampling_locations, 2, a.M, "M = value.shape[2]");
    require_extent(a.sampling_locations, 3, a.L, "L = spatial_shapes.shape[0]");
    require_extent(a.sampling_locations, 5, 2, "x and y");
    require_extent(a.attention_weights, 0, a.B, "B = value.shape[0]");
    require_extent(a.attention_weights, 1, a.Q, "Q = sampling_locations.shape[1]");
    require_extent(a.attention_weights, 2, a.M, "M = value.shape[2]");
    require_extent(a.attention_weights, 3, a.L, "L = spatial_shapes.shape[0]");
    require_extent(a.attention_weights, 4, a.P, "P = sampling_locations.shape[4]");
    return a;
}

Tensor view_rows(const char *name, const DLTensor *tensor, const MsdaInputs &a) {
    Tensor rows = view(name, tensor, {3, 4});
    require_same_dtype(rows, a.value);
    require_extent(rows, 0, a.B, "B = value.shape[0]");
    require_extent(rows, 1, a.Q, "Q = sampling_locations.shape[1]");
    if (rows.ndim == 3) {
        require_extent(rows, 2, a.M * a.D, "M * D of value");
        return rows.split_axis(2, a.D);
    }
    require_extent(rows, 2, a.M, "M = value.shape[2]");
    require_extent(rows, 3, a.D, "D = value.shape[3]");
    return rows;
}

int64_t level_table_workspace(const MsdaInputs &a) {
    return workspace_block(3 * a.M * a.samples() * sizeof(int32_t));
}

bool keys_may_be_dropped(const MsdaInputs &a) {
    return (a.K - 1) * std::abs(a.value.strides[1]) >= INT32_MAX;
}

int64_t drop_unused_keys(MsdaInputs &a, LevelTable &levels) {
    if (levels.careful || !keys_may_be_dropped(a)) {
        return 0;
    }
    int64_t begin = a.K, end = 0;
    int32_t *widths = levels.rows.data(), *heights = widths + levels.columns, *first_keys = heights + levels.columns;
    for (int64_t i = 0; i < levels.columns; i++) {
        if (widths[i] > 0) {
            begin = std::min<int64_t>(begin, first_keys[i]);
            end = std::max(end, first_keys[i] + static_cast<int64_t>(widths[i]) * heights[i]);
        }
    }
    if (begin >= end) {
        return 0;
    }
    for (int64_t i = 0; i < levels.columns; i++) {
        first_keys[i] -= widths[i] > 0 ? static_cast<int32_t>(begin) : 0;
    }
    a.value = slice(a.value, 1, begin, end - begin);
    a.K = end - begin;
    return begin;
}

Tensor clear_dropped_keys(const Tensor &gradient, const MsdaInputs &a, int64_t dropped) {
    fill_zero(slice(gradient, 1, 0, dropped));
    fill_zero(slice(gradient, 1, dropped + a.K, gradient.shape[1] - dropped - a.K));
    return slice(gradient, 1, dropped, a.K);
}

int64_t batches_at_once(const MsdaInputs &a, std::initializer_list<const Tensor *> others) {
    const int64_t batch_bytes = std::max<int64_t>(1, a.K * a.M * a.D * a.value.element_bytes());
    bool fits = true;
    const auto check = [&](const Tensor &tensor) { fits &= tensor.shape[0] <= 1 || std::abs(tensor.strides[0]) <= INT32_MAX; };
    check(a.value);
    check(a.sampling_locations);
    check(a.attention_weights);
    for (const Tensor *tensor : others) {
        check(*tensor);
    }
    return fits ? std::clamp<int64_t>(kMaxPackedBytes / batch_bytes, 1, a.B) : 1;
}

int64_t most_batches_at_once(const MsdaInputs &a, std::initializer_list<const Tensor *> others) {
    return keys_may_be_dropped(a) ? a.B : batches_at_once(a, others);
}

int64_t value_workspace(const MsdaInputs &a, const Variant &variant, const Packing &packing, int64_t count) {
    const int64_t K = std::max(a.K, kMinCells), D = round_up(a.D, kChannelMultiple);
    const Tensor value = slice(a.value, 0, 0, count);
    if (!packing.always && cells_readable(value, variant, K)) {
        return 0;
    }
    const auto copy = [&](int64_t channels, int64_t element_bytes) {
        const int64_t cell_bytes = a.M * channels * element_bytes, all = count * K * cell_bytes;
        // Fewer keys let batches_at_once() take more items, to kMaxPackedBytes before channels are widened or filled up.
        const int64_t growth = divide_up(channels * element_bytes, std::max<int64_t>(a.D * value.element_bytes(), 1));
        const int64_t most = std::max(kMaxPackedBytes * growth, K * cell_bytes);
        return workspace_block(keys_may_be_dropped(a) ? std::min(all, most) : all);
    };
    if (packing.widen == nullptr) {
        return copy(D, value.element_bytes());
    }
    return copy(D, a.arithmetic_bytes()) + (usable_in_place(value, variant) ? 0 : copy(a.D, value.element_bytes()));
}

Cells prepare_value(const MsdaInputs &a, const Variant &variant, const Packing &packing, int64_t first, int64_t count) {
    return prepare_cells(slice(a.value, 0, first, count), variant, packing, {0, 2, 1, 3}, std::max(a.K, kMinCells));
}

}  // namespace deformkit
