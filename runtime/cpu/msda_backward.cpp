// Multi-scale deformable attention, backward: from the caller's tensors to kernels.

#include <algorithm>
#include <atomic>
#include <optional>
#include <string>

#include "runtime/cpu/blocks.h"
#include "runtime/cpu/msda.h"
#include "runtime/cpu/slabs.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

namespace {

// Queries in a block, at most: what their dot products need, 24 bytes for a sample, stays in L2.
constexpr int64_t kBlock = 128;

// Where a level gets fewer writes than that for each of its cells, a slab costs more than it saves.
constexpr int64_t kWritesPerSlabCell = 2;

// What the kernels hold: of a block, two positions and four dot products for a sample; for the taps of a level six fields, with
// room for four points at least and all queries, although few are there at a time; and some vectors.
constexpr int64_t kPositions = 2, kDots = 4, kTapFields = 6, kTapPoints = 4, kVectors = 4096;

/// Of the shape alone: the order of blocks is that of the sums in grad_value. Enough blocks for threads to share evenly.
int64_t block_size(const MsdaBackwardCall &call) {
    return std::clamp<int64_t>(call.inputs.Q / 16, 16, kBlock);
}

/// Whether anything in `rows`, [queries, M, D], is NaN or infinite.
bool any_non_finite(const Variant &magnitude, const Tensor &rows) {
    const uint8_t bits = arithmetic_type(rows.dtype).bits;
    uint64_t largest = 0;
    Tensor result;
    result.name = "magnitude";
    result.data = reinterpret_cast<unsigned char *>(&largest);
    result.dtype = {kDLUInt, bits, 1};
    result.ndim = 1;
    result.shape[0] = result.strides[0] = 1;
    Buffer input(rows), output(result);
    void *args[] = {input.get(), output.get()};
    run_kernel(magnitude, args, {input.get(), output.get()});
    return largest >= (bits == 64 ? 0xffe0000000000000u : 0xff000000u);
}

/// Some batch items, in blocks of queries.
struct Batches {
    int64_t first, count;
    const ScratchVector<Block> &blocks;
    OwnedTensor rows;                // grad_output [count, M, Q, D], D a multiple of kChannelMultiple, in the order of blocks
    OwnedTensor locations, weights;  // [count, Q, M * S, 2], [count, Q, M * S]

    int64_t num_blocks() const { return static_cast<int64_t>(blocks.size()); }
    Tensor rows_of(int64_t b, const Block &block) const {
        return packed_block_of(item(rows.tensor, 0, b).swap_axes(0, 1), 0, block);
    }
};

/// grad_sampling_locations and grad_attention_weights, block by block.
class SamplesPass {
public:
    SamplesPass(const Variant &variant, const MsdaInputs &a, LevelTable &levels, const Batches &in,
                const MsdaBackwardCall &call)
        : variant_(variant),
          a_(a),
          levels_(levels),
          in_(in),
          value_(prepare_value(a, variant, {a.worth_packing()}, in.first, in.count)),
          table_(table_tensor(levels)) {
        if (call.grad_locations) {
            grad_locations_.emplace(slice(*call.grad_locations, 0, in.first, in.count), variant);
        }
        if (call.grad_weights) {
            grad_weights_.emplace(slice(*call.grad_weights, 0, in.first, in.count), variant);
        }
    }

    void run(int64_t b, const Block &block) const {
        const auto part = [&](const Tensor &tensor) { return block_of(item(tensor, 0, b), 0, block); };
        // What is not wanted has no queries.
        const auto output = [&](const std::optional<JoinedOutput> &wanted, const Tensor &like) {
            return wanted ? part(wanted->tensor()) : slice(slice(part(like), 0, 0, 0), 1, 0, 0);
        };
        Buffer value_buffer(item(value_.tensor, 0, b)), table_buffer(table_), rows_buffer(in_.rows_of(b, block));
        Buffer locations_buffer(part(in_.locations.tensor)), weights_buffer(part(in_.weights.tensor));
        Buffer grad_locations_buffer(output(grad_locations_, in_.locations.tensor));
        Buffer grad_weights_buffer(output(grad_weights_, in_.weights.tensor));
        value_buffer.flatten_keys(2);
        int32_t num_keys = value_.num_keys, key_step = value_.key_step, num_samples = static_cast<int32_t>(a_.samples());
        bool careful = levels_.careful;
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
        run_kernel(variant_, args, {});
    }

    void finish() const {
        for (const std::optional<JoinedOutput> *output : {&grad_locations_, &grad_weights_}) {
            if (*output) {
                (*output)->finish();
            }
        }
    }

private:
    const Variant &variant_;
    const MsdaInputs &a_;
    const LevelTable &levels_;
    const Batches &in_;
    Cells value_;
    Tensor table_;
    std::optional<JoinedOutput> grad_locations_, grad_weights_;
};

/// grad_value: block by block what it reads and writes is prepared, then all is scattered.
class ValuePass {
public:
    ValuePass(const Variant &variant, const MsdaInputs &a, const LevelTable &levels, const ScratchVector<SlabGroup> &groups,
              const Batches &in, const Tensor &all_grad_value)
        : variant_(variant),
          magnitude_(choose_variant("rows_magnitude", a.value.dtype)),
          a_(a),
          levels_(levels),
          groups_(groups),
          in_(in),
          output_(slice(all_grad_value, 0, in.first, in.count), variant),
          all_locations_(in.locations.tensor.join_axes(2).split_axis(2, a.P * 2)),
          all_weights_(in.weights.tensor.split_axis(2, a.P)),
          locations_(allocate_blocks(all_locations_, a.P * 2)),
          weights_(allocate_blocks(all_weights_, a.P)) {}

    void prepare(int64_t b, int64_t i) {
        const Block &block = in_.blocks[i];
        if (any_non_finite(magnitude_, in_.rows_of(b, block).join_axes(0))) {
            exact_ = true;
        }
        pack_block(all_locations_, b, block, locations_.tensor);
        pack_block(all_weights_, b, block, weights_.tensor);
        for (const SlabGroup &group : groups_) {
            if (in_place(group)) {
                // All heads at once: one head's cells lie far apart.
                const int64_t begin = group.num_keys * i / in_.num_blocks(), end = group.num_keys * (i + 1) / in_.num_blocks();
                clear_block(slice(slice(output_.tensor(), 0, b, 1), 1, group.first_key + begin, end - begin));
            }
        }
    }

    void run() {
        const int64_t groups = static_cast<int64_t>(groups_.size());
        const int64_t channels = channels_of_slab(a_.D, in_.count * a_.M * groups, num_threads());
        const int64_t parts = divide_up(a_.D, channels), slabs = in_.count * a_.M * parts;  // of a group
        parallel_for(static_cast<int>(groups * slabs), [&](int task) {
            const int64_t i = task % slabs, first = i % parts * channels;
            scatter(groups_[task / slabs], i / parts / a_.M, i / parts % a_.M, first, std::min(channels, a_.D - first));
        });
        clear_gaps(groups_, output_.tensor());
        output_.finish();
    }

private:
    /// Few samples: straight into grad_value, where a slab would only be cleared and copied.
    bool in_place(const SlabGroup &group) const {
        return can_be_slab(output_.tensor()) && group.num_keys >= kMinCells &&
               a_.Q * group.num_samples * 4 < group.num_keys * kWritesPerSlabCell;
    }

    /// What the samples of a head add to the cells of a group, in `count` channels from `first` on.
    void scatter(const SlabGroup &group, int64_t b, int64_t m, int64_t first, int64_t count) const {
        const Tensor of_group = slice(item(output_.tensor(), 0, b), 0, group.first_key, group.num_keys);
        const Tensor gradient = slice(slice(of_group, 1, m, 1), 2, first, count);
        const Tensor rows = slice(item(item(in_.rows.tensor, 0, b), 0, m), 1, first, round_up(count, kChannelMultiple));
        const Slab slab(gradient, in_place(group));
        scatter_levels(group, b, m, rows, item(slab.tensor(), 0, 0));
        slab.store(worth_streaming(output_.tensor()));
    }

    void scatter_levels(const SlabGroup &group, int64_t b, int64_t m, const Tensor &rows, const Tensor &slab) const {
        for (int64_t s = group.first_sample; s < group.first_sample + group.num_samples; s += a_.P) {
            int32_t width = levels_.rows[s], height = levels_.rows[levels_.columns + s];
            if (width == kNoExtent) {
                continue;
            }
            int32_t first_cell = static_cast<int32_t>(levels_.rows[2 * levels_.columns + s] - group.first_key);
            int32_t num_samples = static_cast<int32_t>(a_.P);
            bool careful = levels_.careful, exact = exact_;
            const auto of_level = [&](const Tensor &tensor) {
                return item(item(tensor, 0, b), 0, m * a_.L + s / a_.P).join_axes(0);
            };
            Buffer locations_buffer(of_level(locations_.tensor).split_axis(0, 2));
            Buffer weights_buffer(of_level(weights_.tensor)), rows_buffer(rows), slab_buffer(slab);
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
            run_kernel(variant_, args, {});
        }
    }

    const Variant &variant_, &magnitude_;
    const MsdaInputs &a_;
    const LevelTable &levels_;
    const ScratchVector<SlabGroup> &groups_;
    const Batches &in_;
    Output output_;
    Tensor all_locations_, all_weights_;
    OwnedTensor locations_, weights_;  // samples of a head and level beside each other: [count, M * L, Q, P * 2], [.., P]
    std::atomic<bool> exact_{false};
};

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

    int64_t of_samples = value_workspace(a, samples, {a.worth_packing() || drop}, count);
    for (const std::optional<Tensor> *gradient : {&call.grad_locations, &call.grad_weights}) {
        of_samples += *gradient ? joined_workspace(part(**gradient), samples) : 0;
    }
    int64_t both = 0, of_value = 0;  // while value is prepared, and later
    if (call.grad_value) {
        const Tensor target = part(*call.grad_value);
        both = workspace_block(2 * all_samples * storage) + workspace_block(all_samples * storage) +
               (usable_in_place(target, value) ? 0 : workspace_block(target.elements() * storage));
        of_value = plan_workspace(a.L);
    }

    WorkspaceSize workspace;
    workspace.lanes = num_threads();
    workspace.call_bytes = level_table_workspace(a) + blocks_workspace(a.samples(), a.Q, size) +
                           workspace_block(count * a.Q * a.M * round_up(a.D, kChannelMultiple) * storage) +
                           joined_workspace(part(a.sampling_locations), variant) +
                           joined_workspace(part(a.attention_weights), variant) + both + std::max(of_samples, of_value);
    const int64_t block = size * round_up(a.M * a.samples(), kChannelMultiple);
    workspace.lane_bytes =
        std::max(workspace_block(kPositions * block * arithmetic) + workspace_block(kDots * block * arithmetic),
                 workspace_block(kTapFields * (a.Q * std::max(a.P, kTapPoints) + 4 * kChannelMultiple) * arithmetic) +
                     (call.grad_value ? slab_workspace(a.K, a.D, a.value.dtype) : 0)) +
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
        groups = plan_slabs(levels, a.P, a.samples(), a.K);
    }
    const Variant &variant = call.grad_value ? of_value : of_samples;
    const int64_t step = batches_at_once(a, {&call.grad_output});
    const ScratchVector<Block> blocks = make_blocks(levels, a.samples(), a.Q, a.K, block_size(call));
    for (int64_t first = 0; first < a.B; first += step) {
        const int64_t count = std::min(step, a.B - first);
        const Tensor grad_output = slice(call.grad_output, 0, first, count);
        const bool pack_rows = !in_order(blocks) || !rows_readable(grad_output, variant);
        const Batches in{first,
                         count,
                         blocks,
                         pack_rows ? allocate_blocks(grad_output, round_up(a.D, kChannelMultiple))
                                   : OwnedTensor{grad_output.swap_axes(1, 2), Scratch()},
                         joined_input(slice(a.sampling_locations, 0, first, count), variant),
                         joined_input(slice(a.attention_weights, 0, first, count), variant)};
        std::optional<ValuePass> value_pass;
        if (call.grad_value) {
            value_pass.emplace(of_value, a, levels, groups, in, *call.grad_value);
        }
        std::optional<SamplesPass> samples_pass;
        if (samples) {
            samples_pass.emplace(of_samples, a, levels, in, call);
        }
        // One loop for all that goes by blocks: in small decoders, to start a loop takes longer than a block.
        parallel_for(static_cast<int>(count * in.num_blocks()), [&](int task) {
            const int64_t b = task / in.num_blocks(), i = task % in.num_blocks();
            if (pack_rows) {
                pack_block(grad_output, b, in.blocks[i], in.rows.tensor);
            }
            if (value_pass) {
                value_pass->prepare(b, i);
            }
            if (samples_pass) {
                samples_pass->run(b, in.blocks[i]);
            }
        });
        if (samples_pass) {
            samples_pass->finish();
            samples_pass.reset();
        }
        if (value_pass) {
            value_pass->run();
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
