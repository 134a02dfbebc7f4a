// Multi-scale deformable attention, backward: from the caller's tensors to kernels.

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

#include "blocks.h"
#include "buffer.h"
#include "dispatch.h"
#include "error.h"
#include "gradients.h"
#include "layout.h"
#include "msda.h"
#include "parallel.h"
#include "slabs.h"

namespace deformkit {

namespace {

// Queries in a block, at most: what their dot products need, 24 bytes for a sample, stays in L2.
constexpr int64_t kBlock = 128;

// What the kernels hold: of a block, two positions and four dot products for a sample; for the taps of a level six fields, with
// room for four points at least and all queries, although few are there at a time; and some vectors.
constexpr int64_t kPositions = 2, kDots = 4, kTapFields = 6, kTapPoints = 4, kVectors = 4096;

/// Of the shape alone: the order of blocks is that of the sums in grad_value. Enough blocks for threads to share evenly.
int64_t block_size(const MsdaBackwardCall &call) {
    return std::clamp<int64_t>(call.inputs.Q / 16, 16, kBlock);
}

/// What both passes read, for some batch items.
struct Batches {
    int64_t first, count;
    ScratchVector<Block> blocks;
    OwnedTensor rows;                // grad_output [count, M, Q, D], D a multiple of kChannelMultiple, queries in blocks
    OwnedTensor locations, weights;  // [count, Q, M * S, 2], [count, Q, M * S]
};

/// Whether anything in `rows` is NaN or infinite.
bool any_non_finite(const Tensor &rows) {
    const Variant &variant = choose_variant("rows_magnitude", rows.dtype);
    const int64_t bits = std::max(32, static_cast<int>(rows.dtype.bits)), queries = 1024;
    const int64_t chunks = divide_up(rows.shape[2], queries);
    std::atomic<bool> found{false};
    parallel_for(static_cast<int>(rows.shape[0] * chunks), [&](int task) {
        const int64_t first = task % chunks * queries;
        const Tensor part = slice(item(rows, 0, task / chunks), 1, first, std::min(queries, rows.shape[2] - first));
        uint64_t largest = 0;
        Tensor result;
        result.name = "magnitude";
        result.data = reinterpret_cast<unsigned char *>(&largest);
        result.dtype = {kDLUInt, static_cast<uint8_t>(bits), 1};
        result.ndim = 1;
        result.shape[0] = result.strides[0] = 1;
        Buffer input(part), output(result);
        void *args[] = {input.get(), output.get()};
        run_kernel(variant, args, {input.get(), output.get()});
        if (largest >= (bits == 64 ? 0xffe0000000000000u : 0xff000000u)) {
            found = true;
        }
    });
    return found;
}

void backward_samples(const Variant &variant, const MsdaInputs &a, LevelTable &levels, const Batches &in,
                      const MsdaBackwardCall &call) {
    const Cells value = prepare_value(a, variant, a.reads_often(), in.first, in.count);
    const Tensor table = table_tensor(levels);
    std::optional<JoinedOutput> grad_locations, grad_weights;
    if (call.grad_locations) {
        grad_locations.emplace(slice(*call.grad_locations, 0, in.first, in.count), variant);
    }
    if (call.grad_weights) {
        grad_weights.emplace(slice(*call.grad_weights, 0, in.first, in.count), variant);
    }
    const int64_t num_blocks = static_cast<int64_t>(in.blocks.size());
    parallel_for(static_cast<int>(in.count * num_blocks), [&](int task) {
        const int64_t b = task / num_blocks;
        const Block &block = in.blocks[task % num_blocks];
        const auto part = [&](const Tensor &tensor) { return block_of(item(tensor, 0, b), 0, block); };
        // What is not wanted has no queries.
        const auto output = [&](const std::optional<JoinedOutput> &wanted, const Tensor &like) {
            return wanted ? part(wanted->tensor()) : slice(slice(part(like), 0, 0, 0), 1, 0, 0);
        };
        Buffer value_buffer(item(value.tensor, 0, b)), table_buffer(table);
        Buffer rows_buffer(packed_block_of(item(in.rows.tensor, 0, b).swap_axes(0, 1), 0, block));
        Buffer locations_buffer(part(in.locations.tensor)), weights_buffer(part(in.weights.tensor));
        Buffer grad_locations_buffer(output(grad_locations, in.locations.tensor));
        Buffer grad_weights_buffer(output(grad_weights, in.weights.tensor));
        value_buffer.flatten_keys(2);
        int32_t num_keys = value.num_keys, key_step = value.key_step, num_samples = static_cast<int32_t>(a.samples());
        bool careful = levels.careful;
        void *args[] = {value_buffer.get(),
                        table_buffer.get(),
                        locations_buffer.get(),
                        weights_buffer.get(),
                        rows_buffer.get(),
                        &num_keys,
                        &key_step,
                        &num_samples,
                        &careful,
                        grad_locations_buffer.get(),
                        grad_weights_buffer.get()};
        run_kernel(variant, args, {});
    });
    if (grad_locations) {
        grad_locations->finish();
    }
    if (grad_weights) {
        grad_weights->finish();
    }
}

/// Samples as the scatter reads them: those of a head and level beside each other, queries in blocks.
struct PackedSamples {
    OwnedTensor locations, weights;  // [count, M * L, Q, P * 2], [count, M * L, Q, P]

    PackedSamples(const MsdaInputs &a, const Batches &in)
        : locations(pack_blocks(in.locations.tensor.join_axes(2).split_axis(2, a.P * 2), in.blocks, a.P * 2)),
          weights(pack_blocks(in.weights.tensor.split_axis(2, a.P), in.blocks, a.P)) {}
};

/// Few samples: straight into grad_value, where a slab would only be cleared and copied.
bool writes_directly(const MsdaInputs &a) {
    return a.value.dtype.bits >= 32 && !a.reads_often() && a.D % kChannelMultiple == 0;
}

void backward_value(const Variant &variant, const MsdaInputs &a, const LevelTable &levels,
                    const ScratchVector<SlabGroup> &groups, const Batches &in, const Tensor &all_grad_value) {
    bool exact = any_non_finite(in.rows.tensor);
    const PackedSamples samples(a, in);

    const Tensor target = slice(all_grad_value, 0, in.first, in.count);
    const Output output(target, usable_in_place(target, variant));
    const Tensor &grad_value = output.tensor();
    const bool direct = writes_directly(a);

    ScratchVector<Slabs> slabs(groups.size());
    ScratchVector<int> first_task(groups.size() + 1, 0);
    for (size_t g = 0; g < groups.size(); g++) {
        if (!direct || groups[g].parts > 1 || groups[g].num_keys < 2) {
            slabs[g] = allocate_slabs(groups[g], in.count, a.M, a.D, a.value.dtype);
        } else {
            // All heads at once: one head's cells lie far apart.
            fill_zero(slice(grad_value, 1, groups[g].first_key, groups[g].num_keys));
        }
        first_task[g + 1] = first_task[g] + static_cast<int>(in.count * groups[g].parts * a.M);
    }
    parallel_for(first_task.back(), [&](int task) {
        const size_t g = std::upper_bound(first_task.begin(), first_task.end(), task) - first_task.begin() - 1;
        const SlabGroup &group = groups[g];
        const int64_t i = task - first_task[g];
        const int64_t m = i % a.M, part = i / a.M % group.parts, b = i / (a.M * group.parts);
        const bool own = slabs[g].tensor.data != nullptr;
        const Tensor slab = own ? item(item(item(slabs[g].tensor, 0, b), 0, part), 0, m)
                                : item(slice(item(grad_value, 0, b), 0, group.first_key, group.num_keys), 1, m);
        if (own) {
            clear_slab(slab);
        }
        const int64_t begin = a.Q * part / group.parts, queries = a.Q * (part + 1) / group.parts - begin;
        for (int64_t s = group.first_sample; s < group.first_sample + group.num_samples; s += a.P) {
            int32_t width = levels.rows[s], height = levels.rows[levels.columns + s];
            if (width == 0) {
                continue;
            }
            int32_t first_cell = static_cast<int32_t>(levels.rows[2 * levels.columns + s] - group.first_key);
            int32_t num_samples = static_cast<int32_t>(a.P);
            bool careful = levels.careful;
            const auto of_level = [&](const Tensor &tensor) {
                return slice(item(item(tensor, 0, b), 0, m * a.L + s / a.P), 0, begin, queries).join_axes(0);
            };
            Buffer locations_buffer(of_level(samples.locations.tensor).split_axis(0, 2));
            Buffer weights_buffer(of_level(samples.weights.tensor)), slab_buffer(slab);
            Buffer rows_buffer(slice(item(item(in.rows.tensor, 0, b), 0, m), 0, begin, queries));
            void *args[] = {locations_buffer.get(),
                            weights_buffer.get(),
                            rows_buffer.get(),
                            &num_samples,
                            &width,
                            &height,
                            &first_cell,
                            &careful,
                            &exact,
                            slab_buffer.get()};
            run_kernel(variant, args, {});
        }
    });
    for (size_t g = 0; g < groups.size(); g++) {
        if (slabs[g].tensor.data != nullptr) {
            reduce_slabs(slabs[g], groups[g], grad_value);
        }
    }
    clear_gaps(groups, grad_value);
    output.finish();
}

bool is_trivial(const MsdaBackwardCall &call) {
    return call.grad_output.empty() || call.inputs.is_empty();
}

}  // namespace

MsdaBackwardCall check_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                     const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                     const DLTensor *grad_output, const DLTensor *grad_value,
                                     const DLTensor *grad_sampling_locations, const DLTensor *grad_attention_weights) {
    MsdaBackwardCall call;
    call.inputs = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights);
    const MsdaInputs &a = call.inputs;
    call.grad_output = view_rows("grad_output", grad_output, a);
    call.grad_value = view_gradient("grad_value", grad_value, a.value);
    call.grad_locations = view_gradient("grad_sampling_locations", grad_sampling_locations, a.sampling_locations);
    call.grad_weights = view_gradient("grad_attention_weights", grad_attention_weights, a.attention_weights);
    require_no_overlap(
        {&call.grad_value, &call.grad_locations, &call.grad_weights},
        {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights, &call.grad_output});
    return call;
}

WorkspaceSize msda_backward_workspace(const MsdaBackwardCall &call) {
    const MsdaInputs &a = call.inputs;
    const Variant &samples = choose_variant("msda_backward_samples", a.value.dtype);
    const Variant &value = choose_variant("msda_backward_value", a.value.dtype);
    if (is_trivial(call)) {
        return {};
    }
    const Variant &variant = call.grad_value ? value : samples;
    const int64_t count = most_batches_at_once(a, {&call.grad_output}), size = block_size(call);
    const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count); };
    const bool drop = keys_may_be_dropped(a);
    const int64_t storage = a.value.element_bytes(), arithmetic = a.arithmetic_bytes();
    const int64_t all_samples = count * a.Q * a.M * a.samples();

    int64_t of_samples = value_workspace(a, samples, a.reads_often() || drop, count);
    for (const std::optional<Tensor> *gradient : {&call.grad_locations, &call.grad_weights}) {
        of_samples += *gradient ? joined_workspace(part(**gradient), samples) : 0;
    }
    int64_t of_value = 0;
    if (call.grad_value) {
        const Tensor target = part(*call.grad_value);
        of_value = workspace_block(2 * all_samples * storage) + workspace_block(all_samples * storage) +
                   workspace_block(a.L * sizeof(Slabs)) + workspace_block((a.L + 1) * sizeof(int)) +
                   slabs_workspace(a.L, a.P, {a.B, a.M, a.Q, a.samples(), a.K}, count, a.D, a.value.dtype,
                                   writes_directly(a) && !drop);
        if (!usable_in_place(target, value)) {
            of_value += workspace_block(target.elements() * storage);
        }
    }

    WorkspaceSize workspace;
    workspace.lanes = num_threads();
    workspace.call_bytes = level_table_workspace(a) + blocks_workspace(a.samples(), a.Q, size) +
                           workspace_block(count * a.Q * a.M * round_up(a.D, kChannelMultiple) * storage) +
                           joined_workspace(part(a.sampling_locations), variant) +
                           joined_workspace(part(a.attention_weights), variant) + std::max(of_samples, of_value);
    const int64_t block = size * round_up(a.M * a.samples(), kChannelMultiple);
    workspace.lane_bytes =
        std::max(workspace_block(kPositions * block * arithmetic) + workspace_block(kDots * block * arithmetic),
                 workspace_block(kTapFields * (a.Q * std::max(a.P, kTapPoints) + 4 * kChannelMultiple) * arithmetic)) +
        4 * workspace_block(kVectors);
    return workspace;
}

void msda_backward(MsdaBackwardCall call) {
    MsdaInputs &a = call.inputs;
    set_last_variant("");
    for (std::optional<Tensor> *gradient : {&call.grad_value, &call.grad_locations, &call.grad_weights}) {
        if (*gradient && (*gradient)->empty()) {
            gradient->reset();
        }
    }
    // Also where nothing is to be done, a type that nothing serves is refused.
    const Variant &of_samples = choose_variant("msda_backward_samples", a.value.dtype);
    const Variant &of_value = choose_variant("msda_backward_value", a.value.dtype);
    const bool samples = call.grad_locations || call.grad_weights;
    if (!samples && !call.grad_value) {
        return;
    }
    if (is_trivial(call)) {
        for (const std::optional<Tensor> *gradient : {&call.grad_value, &call.grad_locations, &call.grad_weights}) {
            if (*gradient) {
                fill_zero(**gradient);
            }
        }
        return;
    }
    LevelTable levels = make_level_table(a.spatial_shapes, a.level_start_index, a.M, a.P, a.K);
    const int64_t dropped = drop_unused_keys(a, levels);
    ScratchVector<SlabGroup> groups;
    if (call.grad_value) {
        call.grad_value = clear_dropped_keys(*call.grad_value, a, dropped);
        groups = plan_slabs(levels, a.P, {a.B, a.M, a.Q, a.samples(), a.K});
    }
    const Variant &variant = call.grad_value ? of_value : of_samples;
    const int64_t step = batches_at_once(a, {&call.grad_output});
    for (int64_t first = 0; first < a.B; first += step) {
        Batches in{first, std::min(step, a.B - first), {}, {}, {}, {}};
        in.blocks = make_blocks(levels, a.samples(), a.Q, a.K, block_size(call));
        in.rows = pack_blocks(slice(call.grad_output, 0, first, in.count), in.blocks, round_up(a.D, kChannelMultiple));
        in.locations = joined_input(slice(a.sampling_locations, 0, first, in.count), variant);
        in.weights = joined_input(slice(a.attention_weights, 0, first, in.count), variant);
        if (samples) {
            backward_samples(of_samples, a, levels, in, call);
        }
        if (call.grad_value) {
            backward_value(of_value, a, levels, groups, in, *call.grad_value);
        }
    }
    set_last_variant(variant.name);
}

}  // namespace deformkit

deformkit_status deformkit_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                         const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                         const DLTensor *attention_weights, const DLTensor *grad_output, DLTensor *grad_value,
                                         DLTensor *grad_sampling_locations, DLTensor *grad_attention_weights) {
    using namespace deformkit;
    return guarded([&] {
        msda_backward(check_msda_backward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                          grad_output, grad_value, grad_sampling_locations, grad_attention_weights));
    });
}
