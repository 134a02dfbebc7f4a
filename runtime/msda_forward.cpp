// Multi-scale deformable attention, forward: from the caller's tensors to a kernel.

#include <algorithm>

#include "buffer.h"
#include "dispatch.h"
#include "error.h"
#include "layout.h"
#include "msda_inputs.h"
#include "parallel.h"

namespace deformkit {

namespace {

// Less than about 20 us of work is not worth waking a thread for.
constexpr int64_t kMinSamplesPerTask = 4096;
constexpr int64_t kMaxQueryTile = 1024;

void forward_batches(const Variant &variant, const MsdaInputs &a, const Tensor &all_output, const Tensor &table, bool careful,
                     int64_t first, int64_t count) {
    const bool bfloat = a.value.dtype.code == kDLBfloat;
    const Variant *head_major = bfloat && a.D % 2 != 0 ? nullptr : companion(variant, "msda_forward_head_major");
    const bool pays = head_major != nullptr && a.reads_often(), pairs = pays && bfloat;
    Cells value = prepare_value(a, variant, pays, first, count, pairs ? 2 * kChannelMultiple : kChannelMultiple);
    if (pairs) {
        value.tensor = as_pairs(value.tensor);
        value.key_step /= 2;
    }
    const OwnedTensor locations = joined_input(slice(a.sampling_locations, 0, first, count), variant);
    const OwnedTensor weights = joined_input(slice(a.attention_weights, 0, first, count), variant);
    const Tensor output = slice(all_output, 0, first, count);
    OwnedTensor packed_output;
    const bool copy_output = !dense(output, 3) || !addressable(output, variant) || (pairs && !can_be_pairs(output));
    if (copy_output) {
        packed_output = allocate_like(output, {0, 1, 2, 3});
    }
    const Tensor &written = copy_output ? packed_output.tensor : output;

    // Enough tasks for the threads to share evenly, but large enough to reuse what is in the caches.
    const int64_t per_thread = pays ? 4 : 1;
    const int64_t tiles = divide_up(num_threads() * per_thread, count);
    const int64_t smallest = divide_up(kMinSamplesPerTask, std::max<int64_t>(a.M * a.samples(), 1));
    int32_t query_tile = static_cast<int32_t>(
        std::min(a.Q, std::clamp(divide_up(a.Q, tiles), std::min(smallest, kMaxQueryTile), kMaxQueryTile)));

    Buffer value_buffer(value.tensor), table_buffer(table), locations_buffer(locations.tensor), weights_buffer(weights.tensor);
    Buffer output_buffer(pairs ? as_pairs(written) : written);
    int32_t num_keys = value.num_keys, key_step = 1;
    if (!variant.gpu) {
        key_step = value.key_step;
        value_buffer.flatten_keys(2);
    }
    int32_t num_samples = static_cast<int32_t>(a.samples());
    void *args[] = {value_buffer.get(), table_buffer.get(), locations_buffer.get(), weights_buffer.get(),
                    &num_keys,          &key_step,          &num_samples,           &careful,
                    &query_tile,        output_buffer.get()};
    run_kernel(pays ? *head_major : variant, args,
               {value_buffer.get(), table_buffer.get(), locations_buffer.get(), weights_buffer.get(), output_buffer.get()});
    if (copy_output) {
        copy_elements(packed_output.tensor, output);
    }
}

void forward(MsdaInputs a, const Tensor &output) {
    const Variant &variant = choose_variant("msda_forward", a.value.dtype);
    set_last_variant("");
    if (output.empty()) {
        return;
    }
    if (a.K == 0 || a.L == 0 || a.P == 0) {
        fill_zero(output);
        return;
    }
    LevelTable levels = make_level_table(a.spatial_shapes, a.level_start_index, a.M, a.P, a.K);
    drop_unused_keys(a, levels);
    const Tensor table = table_tensor(levels);
    const int64_t step = batches_at_once(a, {&output});
    for (int64_t first = 0; first < a.B; first += step) {
        forward_batches(variant, a, output, table, levels.careful, first, std::min(step, a.B - first));
    }
    set_last_variant(variant.name);
}

}  // namespace

}  // namespace deformkit

deformkit_status deformkit_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                        const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                        const DLTensor *attention_weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        const MsdaInputs a = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights);
        const Tensor rows = view_rows("output", output, a);
        require_no_overlap(rows,
                           {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights});
        forward(a, rows);
    });
}
