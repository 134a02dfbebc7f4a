// Multi-scale deformable attention, backward: how a call is divided, and what its kernels are handed.
//
// Block by block the gradients of samples are computed, and what is scattered is brought in order; then grad_value is
// scattered, slab by slab.

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include "runtime/cpu/blocks.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/slabs.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/interface/gradients.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"
#include "schedules/msda_knobs.h"

namespace deformkit {

namespace {

/// The dense memory of a call's samples, [Q, M * L, P * N] or [Q, M * L, P], as one axis for each head and level.
Tensor by_levels(const Tensor &joined, int64_t samples_of_level) {
    return joined.ndim == 4 ? joined.join_axes(2).split_axis(2, samples_of_level * joined.shape[3])
                            : joined.split_axis(2, samples_of_level);
}

class MsdaBackwardPlan final : public Plan {
public:
    explicit MsdaBackwardPlan(const MsdaBackwardCall &call)
        : a_(call.inputs),
          grad_output_(call.grad_output),
          grad_value_(wanted(call.grad_value)),
          grad_locations_(wanted(call.grad_locations)),
          grad_weights_(wanted(call.grad_weights)),
          samples_kernel_(choose_variant("msda_backward_samples", a_.value.dtype)),
          value_kernel_(choose_variant("msda_backward_value", a_.value.dtype, samples_kernel_.target)),
          narrow_kernel_(companion(value_kernel_, "convert_narrow")),
          knobs_(host_knobs<MsdaBackwardValueHostKnobs>(value_kernel_)) {
        if (is_nothing()) {
            return;
        }
        count_ = batches_at_once(a_, {&grad_output_}, knobs_.packed_bytes);
        // Of the shape alone: the order of blocks is that of the sums in grad_value.
        const int64_t block = std::clamp(a_.Q / knobs_.least_blocks, std::min(knobs_.least_block_queries, knobs_.block_queries),
                                         knobs_.block_queries);
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count_); };
        levels_ = reserve_levels(memory_, a_.M * a_.samples());
        blocks_ = Blocks(memory_, a_.samples(), block);
        grads_ = stage_blocks(memory_, part(grad_output_), round_up(a_.D, kChannelMultiple));
        locations_ = stage_samples(memory_, part(a_.sampling_locations));
        weights_ = stage_samples(memory_, part(a_.attention_weights));
        if (of_samples()) {
            const Packing packing = {a_.reads_per_cell_reach(knobs_.packing_reads)};
            value_ = StagedCells(memory_, part(a_.value), packing, {0, 2, 1, 3});
            if (grad_locations_) {
                locations_target_ = stage_samples(memory_, part(*grad_locations_));
            }
            if (grad_weights_) {
                weights_target_ = stage_samples(memory_, part(*grad_weights_));
            }
        }
        if (grad_value_) {
            value_target_ = stage(memory_, part(*grad_value_));
            if (product({a_.Q, a_.P}) > kMostOfAxis) {
                fail_too_large(a_.sampling_locations, "less than 2^31 samples of a head and level");
            }
            const auto dense = [&](const Tensor &tensor) { return join_samples(dense_like(part(tensor), nullptr)); };
            scatter_locations_ = stage_blocks(memory_, by_levels(dense(a_.sampling_locations), a_.P), a_.P * 2);
            scatter_weights_ = stage_blocks(memory_, by_levels(dense(a_.attention_weights), a_.P), a_.P);
            groups_ = MapGroups(memory_, a_.L);
        }
    }

private:
    /// Some batch items, as kernels see them.
    struct Batches {
        int64_t count;
        LevelTable levels;
        Cells value;
        Tensor grad_output, grads;  // grads [count, M, Q, D'], in the order of blocks
        Tensor locations, weights;  // [count, Q, M * S, 2], [count, Q, M * S]
        Tensor grad_locations, grad_weights;
        Tensor scatter_locations, scatter_weights;  // samples of a head and level beside each other: [count, M * L, Q, P * 2]
        Tensor grad_value;
    };

    static std::optional<Tensor> wanted(const std::optional<Tensor> &gradient) {
        return gradient && !gradient->empty() ? gradient : std::nullopt;
    }
    bool is_nothing() const override { return (!of_samples() && !grad_value_) || grad_output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { clear_gradients({&grad_value_, &grad_locations_, &grad_weights_}); }
    bool of_samples() const { return grad_locations_ || grad_weights_; }

    void run_in_memory() override {
        const LevelTable levels = make_level_table(
            levels_, a_.L, [&](int64_t l) { return a_.level(l); }, a_.M, a_.P, a_.K);
        blocks_.make(levels, a_.samples(), a_.Q, a_.K);
        if (grad_value_) {
            groups_.make(levels, a_.samples(), a_.P, a_.K);
        }
        for (int64_t first = 0; first < a_.B; first += count_) {
            run_batches(levels, first, std::min(count_, a_.B - first));
        }
        set_last_variant((grad_value_ ? value_kernel_ : samples_kernel_).name);
    }

    void run_batches(const LevelTable &levels, int64_t first, int64_t count) {
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, count); };
        Batches in;
        in.count = count;
        in.levels = levels;
        in.grad_output = part(grad_output_);
        const bool pack_grads = !blocks_.in_order() || !channels_readable(in.grad_output);
        in.grads = pack_grads ? grads_.of(in.grad_output) : in.grad_output.swap_axes(1, 2);
        if (of_samples() && !fits_buffer(item(in.grads, 0, 0))) {
            fail_too_large(grad_output_, "queries and channels, filled up to a multiple of " +
                                             std::to_string(kChannelMultiple) + ", below 2^31 numbers");
        }
        in.locations = join_samples(locations_.load(part(a_.sampling_locations)));
        in.weights = join_samples(weights_.load(part(a_.attention_weights)));
        if (of_samples()) {
            in.value = value_.load(part(a_.value));
            // What is not wanted has no queries.
            in.grad_locations =
                grad_locations_ ? join_samples(locations_target_.of(part(*grad_locations_))) : slice(in.locations, 1, 0, 0);
            in.grad_weights =
                grad_weights_ ? join_samples(weights_target_.of(part(*grad_weights_))) : slice(in.weights, 1, 0, 0);
        }
        if (grad_value_) {
            in.grad_value = value_target_.of(part(*grad_value_));
            in.scatter_locations = scatter_locations_.of(in.locations);
            in.scatter_weights = scatter_weights_.of(in.weights);
        }
        int64_t stride = 0;
        for (const Tensor *tensor : {&in.locations, &in.weights, &in.grad_locations, &in.grad_weights}) {
            stride = std::max(stride, std::abs(tensor->strides[1]));
        }
        // One loop for all that goes by blocks: in small decoders, to start a loop takes longer than a block.
        parallel_for(count * blocks_.count(), [&](int64_t task) {
            const int64_t b = task / blocks_.count(), i = task % blocks_.count();
            if (pack_grads) {
                pack_block(in.grad_output, b, blocks_[i], in.grads);
            }
            if (grad_value_) {
                prepare_scatter(in, b, i);
            }
            if (of_samples()) {
                for_addressable_parts(blocks_[i], stride, [&](const Block &block) { run_samples(in, b, block); });
            }
        });
        if (grad_locations_) {
            locations_target_.store(part(*grad_locations_));
        }
        if (grad_weights_) {
            weights_target_.store(part(*grad_weights_));
        }
        if (grad_value_) {
            scatter_all(in);
            value_target_.store(part(*grad_value_));
        }
    }

    static Tensor grads_of(const Batches &in, int64_t b, const Block &block) {
        return packed_block_of(item(in.grads, 0, b).swap_axes(0, 1), 0, block);
    }

    void run_samples(const Batches &in, int64_t b, const Block &block) const {
        const auto part = [&](const Tensor &tensor) { return block_of(item(tensor, 0, b), 0, block); };
        const auto output = [&](const Tensor &tensor) {
            const Tensor whole = part(tensor);
            return tensor.shape[1] == 0 ? slice(slice(whole, 0, 0, 0), 1, 0, 0) : whole;
        };
        Buffer value(item(in.value.tensor, 0, b)), table(in.levels.tensor()), grads(grads_of(in, b, block));
        Buffer locations(part(in.locations)), weights(part(in.weights));
        Buffer grad_locations(output(in.grad_locations)), grad_weights(output(in.grad_weights));
        value.flatten_keys(2);
        int32_t num_keys = in.value.num_keys, key_step = in.value.key_step, num_samples = static_cast<int32_t>(a_.samples());
        bool check_cells = in.levels.check_cells;
        void *args[] = {value.get(), table.get(),  locations.get(), weights.get(),        grads.get(),       &num_keys,
                        &key_step,   &num_samples, &check_cells,    grad_locations.get(), grad_weights.get()};
        run_kernel(samples_kernel_, args);
    }

    /// What one block has to scatter, in order; a part of the gradient is cleared.
    void prepare_scatter(const Batches &in, int64_t b, int64_t i) const {
        const Block block = blocks_[i];
        pack_block(by_levels(in.locations, a_.P), b, block, in.scatter_locations);
        pack_block(by_levels(in.weights, a_.P), b, block, in.scatter_weights);
        for (const MapGroup &group : groups_) {
            if (in_place(group, in.grad_value)) {
                // All heads at once: one head's cells lie far apart.
                const int64_t begin = group.keys.count * i / blocks_.count(),
                              end = group.keys.count * (i + 1) / blocks_.count();
                clear_block(slice(slice(in.grad_value, 0, b, 1), 1, group.keys.first + begin, end - begin));
            }
        }
    }

    /// Few samples: straight into grad_value, where a slab would only be cleared and copied.
    bool in_place(const MapGroup &group, const Tensor &gradient) const {
        return can_be_slab(gradient) && a_.Q * group.size() * a_.P * 4 < group.keys.count * knobs_.slab_writes;
    }

    void scatter_all(const Batches &in) const {
        const bool stream = worth_streaming(in.grad_value, knobs_.streaming_bytes);
        const ScatterCost cost = {knobs_.find_cells_cost, knobs_.add_vector_cost};
        const int64_t channels = channels_of_slab(a_.D, in.count * a_.M * groups_.count(), threads_, cost);
        const int64_t parts = divide_up(a_.D, channels), slabs = in.count * a_.M * parts;  // of a group
        parallel_for(groups_.count() * slabs, [&](int64_t task) {
            const int64_t i = task % slabs, first = i % parts * channels;
            const int64_t count = std::min(channels, a_.D - first), m = i / parts % a_.M, b = i / parts / a_.M;
            const MapGroup &group = groups_[task / slabs];
            const Tensor cells = slice(item(in.grad_value, 0, b), 0, group.keys.first, group.keys.count);
            const Tensor gradient = slice(slice(cells, 1, m, 1), 2, first, count);
            const Tensor grads = slice(item(item(in.grads, 0, b), 0, m), 1, first, round_up(count, kChannelMultiple));
            const Slab slab(gradient, in_place(group, in.grad_value));
            for (const int64_t l : group) {
                const auto of_level = [&](const Tensor &tensor) {
                    return item(item(tensor, 0, b), 0, m * a_.L + l).join_axes(0);
                };
                scatter_level(in.levels, l, group.keys.first, of_level(in.scatter_locations), of_level(in.scatter_weights),
                              grads, item(slab.tensor(), 0, 0));
            }
            slab.store(narrow_kernel_, stream);
        });
        groups_.clear_gaps(in.grad_value);
    }

    /// `locations` [Q * P * 2], `weights` [Q * P], `grads` [Q, D'], `slab` [cells, D'].
    void scatter_level(const LevelTable &levels, int64_t l, int64_t first_key, const Tensor &locations, const Tensor &weights,
                       const Tensor &grads, const Tensor &slab) const {
        const int64_t column = l * a_.P;
        int32_t width = levels.width(column), height = levels.height(column);
        int32_t first_cell = static_cast<int32_t>(levels.first_key(column) - first_key),
                num_samples = static_cast<int32_t>(a_.P);
        bool check_cells = levels.check_cells;
        Buffer locations_buffer(locations.split_axis(0, 2)), weights_buffer(weights), grads_buffer(grads), slab_buffer(slab);
        void *args[] = {
            locations_buffer.get(), weights_buffer.get(), grads_buffer.get(), &num_samples, &width, &height, &first_cell,
            &check_cells,           slab_buffer.get()};
        run_kernel(value_kernel_, args);
    }

    void try_tasks(TrialTensors &tensors) const override {
        const DLDataType storage = a_.value.dtype;
        const int64_t samples = a_.M * a_.samples(), channels = round_up(a_.D, kChannelMultiple);
        Batches in;
        in.levels = tensors.make_levels(samples);
        in.value = {tensors.make(storage, {1, a_.K, a_.M, channels}, 2), static_cast<int32_t>(a_.K), 0};
        for (const Block &block : {blocks_.longest_run(), blocks_.largest_rectangle()}) {
            const int64_t queries = block.size();
            in.grads = tensors.make(storage, {1, a_.M, queries, channels}, 1);
            in.locations = in.grad_locations = tensors.make(storage, {1, queries, samples, 2}, 2);
            in.weights = in.grad_weights = tensors.make(storage, {1, queries, samples}, 1);
            parallel_for(1, [&](int) { run_samples(in, 0, block); });
        }
        if (grad_value_) {
            const Tensor gradient = tensors.make(storage, {trial_size(a_.K), 1, a_.D}, 1);
            const int64_t queries = trial_size(a_.Q);
            const Tensor locations = tensors.make(storage, {queries * a_.P * 2}, 1),
                         weights = tensors.make(storage, {queries * a_.P}, 1);
            const Tensor grads = tensors.make(storage, {queries, channels}, 1);
            parallel_for(1, [&](int) {
                const Slab slab(gradient, false);
                scatter_level(in.levels, 0, 0, locations, weights, grads, item(slab.tensor(), 0, 0));
                slab.store(narrow_kernel_, false);
            });
        }
    }

    TrialKey trial_key() const override {
        return {reinterpret_cast<intptr_t>(&samples_kernel_),
                reinterpret_cast<intptr_t>(&value_kernel_),
                trial_size(a_.K),
                a_.M,
                a_.D,
                trial_size(a_.Q),
                a_.L,
                a_.P,
                blocks_.longest_run().size(),
                of_samples(),
                grad_value_.has_value()};
    }

    MsdaInputs a_;
    Tensor grad_output_;
    std::optional<Tensor> grad_value_, grad_locations_, grad_weights_;  // those that are wanted
    const Variant &samples_kernel_, &value_kernel_, *narrow_kernel_;
    const MsdaBackwardValueHostKnobs &knobs_;
    int64_t count_ = 1;  // batch items at once
    CallArray<int32_t> levels_;
    Blocks blocks_;
    MapGroups groups_;
    StagedCells value_;
    Staged grads_, locations_, weights_, scatter_locations_, scatter_weights_;
    Staged value_target_, locations_target_, weights_target_;
};

}  // namespace

void run(const MsdaBackwardCall &call) {
    MsdaBackwardPlan(call).run();
}

std::unique_ptr<Plan> plan(const MsdaBackwardCall &call) {
    return std::make_unique<MsdaBackwardPlan>(call);
}

}  // namespace deformkit
