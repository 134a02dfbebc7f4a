// Multi-scale deformable attention, forward: from the caller's tensors to a kernel.

#include <algorithm>

#include "runtime/cpu/blocks.h"
#include "runtime/cpu/msda.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/interface/error.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

namespace {

// Less than about 20 us of work is not worth waking a thread for.
constexpr int64_t kMinSamplesPerTask = 4096;
constexpr int64_t kMaxQueryTile = 1024;
// Queries in a block, head by head.
constexpr int64_t kBlock = 64;

/// What a block writes.
int64_t block_bytes(const Tensor &output) {
    return kBlock * output.shape[2] * output.shape[3] * output.element_bytes();
}

/// Which kernel runs, and what it wants.
struct Traversal {
    const Variant *head_major;  ///< in place of the variant, where cells are read often; or nullptr
    Packing packing;

    Traversal(const Variant &variant, const MsdaInputs &a) {
        head_major = a.reads_often() ? companion(variant, "msda_forward_head_major") : nullptr;
        // float16 and bfloat16 are converted once, rather than with each sample: against that, float16 takes 0.8x the time on
        // detr_encoder (Xeon, AVX-512, one thread), bfloat16 0.93x.
        packing.widen = head_major != nullptr ? companion(variant, "rows_widen") : nullptr;
        packing.always = head_major != nullptr && (packing.widen != nullptr || a.worth_packing());
    }
    /// Blocks are written to scratch memory, and copied from there.
    bool can_write(const Tensor &output, const Variant &variant) const {
        return head_major != nullptr || usable_in_place(output, variant);
    }
    /// Queries of a task: enough tasks for the threads to share evenly, but large enough to reuse what is in the caches.
    int64_t query_tile(const MsdaInputs &a, int64_t count) const {
        if (head_major != nullptr) {
            return kBlock;
        }
        const int64_t tiles = divide_up(num_threads(), count);
        const int64_t smallest = divide_up(kMinSamplesPerTask, std::max<int64_t>(a.M * a.samples(), 1));
        return std::min(a.Q, std::clamp(divide_up(a.Q, tiles), std::min(smallest, kMaxQueryTile), kMaxQueryTile));
    }
};

void forward_batches(const Variant &variant, const MsdaInputs &a, const Tensor &all_output, LevelTable &levels, int64_t first,
                     int64_t count) {
    const Tensor table = table_tensor(levels);
    const Traversal how(variant, a);
    const Cells value = prepare_value(a, variant, how.packing, first, count);
    const OwnedTensor locations = joined_input(slice(a.sampling_locations, 0, first, count), variant);
    const OwnedTensor weights = joined_input(slice(a.attention_weights, 0, first, count), variant);
    const Tensor target = slice(all_output, 0, first, count);
    const Output output(target, how.can_write(target, variant));

    bool careful = levels.careful;
    int32_t num_keys = value.num_keys, key_step = variant.gpu ? 1 : value.key_step;
    int32_t num_samples = static_cast<int32_t>(a.samples());
    const auto run = [&](const Variant &kernel, int64_t query_tile, const Tensor &cells, const Tensor &at, const Tensor &by,
                         const Tensor &result) {
        int32_t tile = static_cast<int32_t>(query_tile);
        Buffer value_buffer(cells), table_buffer(table), locations_buffer(at), weights_buffer(by), output_buffer(result);
        if (!kernel.gpu) {
            value_buffer.flatten_keys(2);
        }
        void *args[] = {value_buffer.get(),   table_buffer.get(), locations_buffer.get(),
                        weights_buffer.get(), &num_keys,          &key_step,
                        &num_samples,         &careful,           &tile,
                        output_buffer.get()};
        run_kernel(kernel, args,
                   {value_buffer.get(), table_buffer.get(), locations_buffer.get(), weights_buffer.get(), output_buffer.get()});
    };
    if (how.head_major != nullptr) {
        // A call for each block: its rows stand where batch items do, and all of them read the same value.
        const auto blocks = make_blocks(levels, a.samples(), a.Q, a.K, kBlock);
        const int64_t num_blocks = static_cast<int64_t>(blocks.size());
        const bool stream = worth_streaming(all_output);
        parallel_for_neighbours(count * num_blocks, [&](int64_t call) {
            const int64_t b = call / num_blocks;
            const Block &block = blocks[call % num_blocks];
            const auto part = [&](const Tensor &tensor) { return block_of(item(tensor, 0, b), 0, block); };
            Tensor cells = slice(value.tensor, 0, b, block.height);
            cells.strides[0] = 0;
            const Scratch scratch(block_bytes(target));
            const Tensor result = part(target), here = dense_like(result, scratch.data());
            run(*how.head_major, block.width, cells, part(locations.tensor), part(weights.tensor), here);
            copy_block(here, result, stream);
        });
    } else {
        run(variant, how.query_tile(a, count), value.tensor, locations.tensor, weights.tensor, output.tensor());
    }
    output.finish();
}

}  // namespace

MsdaForwardCall check_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                   const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                   const DLTensor *output) {
    MsdaForwardCall call;
    call.inputs = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights);
    call.output = view_rows("output", output, call.inputs);
    const MsdaInputs &a = call.inputs;
    require_no_overlap(call.output,
                       {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights});
    return call;
}

WorkspaceSize msda_forward_workspace(const MsdaForwardCall &call) {
    const MsdaInputs &a = call.inputs;
    const Variant &variant = choose_variant("msda_forward", a.value.dtype);
    if (call.output.empty() || a.is_empty()) {
        return {};
    }
    const int64_t count = most_batches_at_once(a, {&call.output});
    const Traversal how(variant, a);
    const int64_t storage = a.value.element_bytes(), arithmetic = a.arithmetic_bytes(), D = round_up(a.D, kChannelMultiple);
    WorkspaceSize size;
    size.lanes = num_threads();
    size.call_bytes = level_table_workspace(a) + (how.head_major != nullptr ? blocks_workspace(a.samples(), a.Q, kBlock) : 0) +
                      value_workspace(a, variant, how.packing, count) +
                      joined_workspace(slice(a.sampling_locations, 0, 0, count), variant) +
                      joined_workspace(slice(a.attention_weights, 0, 0, count), variant);
    const Tensor output = slice(call.output, 0, 0, count);
    if (!how.can_write(output, variant) || keys_may_be_dropped(a)) {
        size.call_bytes += workspace_block(output.elements() * storage);
    }
    // What the kernels keep for a tile of queries: six fields a tap, and sums; for one query and head, exact ones, and whether
    // sums are suspect. Head-major: the taps of a query twice, sums of one query and head, and the block's output.
    const int64_t tile = how.query_tile(a, count) * a.M, taps = 6 * a.samples() * arithmetic;
    size.lane_bytes = workspace_block(taps * tile) + workspace_block(D * arithmetic) + workspace_block(a.M);
    if (how.head_major != nullptr) {
        size.lane_bytes += workspace_block(taps * a.M) + workspace_block(D * arithmetic) + workspace_block(block_bytes(output));
    } else {
        size.lane_bytes += workspace_block(D * tile * arithmetic);
    }
    return size;
}

void msda_forward(MsdaForwardCall call) {
    MsdaInputs &a = call.inputs;
    const Tensor &output = call.output;
    const Variant &variant = choose_variant("msda_forward", a.value.dtype);
    set_last_variant("");
    if (output.empty()) {
        return;
    }
    if (a.is_empty()) {
        fill_zero(output);
        return;
    }
    LevelTable levels = make_level_table(a.spatial_shapes, a.level_start_index, a.M, a.P, a.K);
    drop_unused_keys(a, levels);
    const int64_t step = batches_at_once(a, {&output});
    for (int64_t first = 0; first < a.B; first += step) {
        forward_batches(variant, a, output, levels, first, std::min(step, a.B - first));
    }
    set_last_variant(variant.name);
}

}  // namespace deformkit

deformkit_status deformkit_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                        const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                        const DLTensor *attention_weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        msda_forward(
            check_msda_forward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output));
    });
}
