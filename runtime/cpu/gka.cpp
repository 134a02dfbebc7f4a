// Geometric kernel attention: how a call is divided, and what its kernels are handed.

#include <algorithm>
#include <optional>

#include "generators/shared/contract.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/slabs.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/interface/gradients.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"
#include "schedules/gka_knobs.h"

namespace deformkit {

namespace {

/// Cells are checked also where a level has none.
LevelTable make_table(CallArray<int32_t> &memory, const MsdaInputs &a) {
    LevelTable levels = make_level_table(
        memory, a.L, [&](int64_t l) { return a.level(l); }, 1, a.P, a.K);
    levels.check_cells = levels.check_cells || levels.has_empty;
    return levels;
}

/// Locations of any type of number as kernels read them: float32 and int32 in place, where strides allow it.
class StagedLocations {
public:
    StagedLocations() = default;
    StagedLocations(CallMemory &memory, const Tensor &locations, const Variant &variant) {
        if (locations.dtype.bits == 32) {
            kind_ = locations.dtype.code == kDLInt ? kIntLocation : kFloatLocation;
        } else {
            convert_ = &choose_variant("gka_cells", locations.dtype, variant.target);
            cells_ = Staged(memory, dense_like(as_bits(locations), nullptr));
        }
        given_ = stage_samples(memory, locations);
    }

    int32_t kind() const { return kind_; }
    /// [B, Q, M, L, P, 2] as 32 bits each, [B, Q, M * S, 2].
    Tensor load(const Tensor &locations) const {
        const Tensor given = join_samples(given_.load(locations));
        if (convert_ == nullptr) {
            return as_bits(given);
        }
        const Tensor cells = join_samples(cells_.of(as_bits(locations)));
        Buffer input(given.join_axes(2)), output(cells.join_axes(2));
        void *args[] = {input.get(), output.get()};
        run_kernel(*convert_, args);
        return cells;
    }

private:
    static Tensor as_bits(Tensor tensor) {
        tensor.dtype = {kDLInt, 32, 1};
        return tensor;
    }

    int32_t kind_ = kMarkedIntLocation;
    const Variant *convert_ = nullptr;
    Staged given_, cells_;
};

/// What every kernel reads, of some batch items.
struct Samples {
    int64_t count;
    int64_t query_tile;  // queries of a task
    LevelTable levels;
    int32_t kind;
    Tensor locations;  // [count, Q, M * S, 2]
};

/// [count, Q, M * S, ...] as [count, Q, M, S, ...].
Tensor by_heads(const Tensor &joined, const MsdaInputs &a) {
    return joined.split_axis(2, a.samples());
}

/// Queries of a task, of `count` batch items.
template <typename Knobs>
int64_t query_tile(const Knobs &knobs, int threads, const MsdaInputs &a, int64_t count) {
    const int64_t smallest = divide_up(knobs.task_samples, a.samples());
    const int64_t wanted = divide_up(a.Q, divide_up(threads * knobs.tasks_per_thread, count * a.M));
    return std::min(a.Q, std::max(wanted, smallest));
}

/// What the kernels of forward and of the gradient of weights do alike: they go over the cells of a head once more for each of
/// its samples. `input` and `output` are theirs alone: weights and output, or gradients of output and of weights.
void run_heads(const Variant &kernel, const MsdaInputs &a, const Samples &in, const Cells &cells, const Tensor &input,
               const Tensor &output) {
    auto query_tile = static_cast<int32_t>(in.query_tile);
    Buffer table(in.levels.tensor()), locations(by_heads(in.locations, a)), value(cells.tensor), read(input), written(output);
    value.flatten_keys(2);
    int32_t num_keys = cells.num_keys, key_step = cells.key_step, kind = in.kind;
    bool check_cells = in.levels.check_cells;
    void *args[] = {table.get(), locations.get(), &kind,       &check_cells, value.get(),
                    &num_keys,   &key_step,       &query_tile, read.get(),   written.get()};
    run_kernel(kernel, args);
}

/// Queries of a trial: kernels take so many at a time, at most.
int64_t trial_queries(int64_t queries) {
    constexpr int64_t kMost =
        std::max({highest<GkaForwardScheduleKnobs>("tap_queries"), highest<GkaBackwardSamplesScheduleKnobs>("tap_queries"),
                  highest<GkaBackwardValueScheduleKnobs>("tap_queries")});
    return std::min(trial_size(queries), kMost);
}

/// What a task of run_heads() is tried on.
Samples try_samples(TrialTensors &tensors, const MsdaInputs &a, int64_t query_tile) {
    return {1, query_tile, tensors.make_levels(a.samples()), kIntLocation,
            tensors.make({kDLInt, 32, 1}, {1, query_tile, a.M * a.samples(), 2}, 2)};
}

Cells try_cells(TrialTensors &tensors, const MsdaInputs &a) {
    return {tensors.make(a.value.dtype, {1, a.K, a.M, round_up(a.D, kChannelMultiple)}, 2), static_cast<int32_t>(a.K), 0};
}

class GkaForwardPlan final : public Plan {
public:
    explicit GkaForwardPlan(const GkaForwardCall &call)
        : a_(call.inputs),
          output_(call.output),
          kernel_(choose_variant("gka_forward", a_.value.dtype)),
          knobs_(host_knobs<GkaForwardHostKnobs>(kernel_)) {
        if (is_nothing()) {
            return;
        }
        count_ = batches_at_once(a_, {&output_}, knobs_.packed_bytes);
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count_); };
        levels_ = reserve_levels(memory_, a_.samples());
        const Packing packing = {a_.reads_per_cell_reach(knobs_.head_major_reads)};
        value_ = StagedCells(memory_, part(a_.value), packing, {0, 2, 1, 3});
        locations_ = StagedLocations(memory_, part(a_.sampling_locations), kernel_);
        weights_ = stage_samples(memory_, part(a_.attention_weights));
        target_ = stage(memory_, part(output_));
    }

private:
    bool is_nothing() const override { return output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { fill_zero(output_); }

    void run_in_memory() override {
        const LevelTable levels = make_table(levels_, a_);
        for (int64_t first = 0; first < a_.B; first += count_) {
            const int64_t count = std::min(count_, a_.B - first);
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, count); };
            const Samples in = {count, query_tile(knobs_, threads_, a_, count_), levels, locations_.kind(),
                                locations_.load(part(a_.sampling_locations))};
            run_heads(kernel_, a_, in, value_.load(part(a_.value)),
                      by_heads(join_samples(weights_.load(part(a_.attention_weights))), a_), target_.of(part(output_)));
            target_.store(part(output_));
        }
        set_last_variant(kernel_.name);
    }
    void try_tasks(TrialTensors &tensors) const override {
        const Samples in = try_samples(tensors, a_, trial_queries(query_tile(knobs_, threads_, a_, count_)));
        run_heads(kernel_, a_, in, try_cells(tensors, a_),
                  by_heads(tensors.make(a_.value.dtype, {1, in.query_tile, a_.M * a_.samples()}, 1), a_),
                  tensors.make(a_.value.dtype, {1, in.query_tile, a_.M, a_.D}, 2));
    }

    TrialKey trial_key() const override {
        return {reinterpret_cast<intptr_t>(&kernel_), a_.M, a_.samples(), a_.D,
                trial_queries(query_tile(knobs_, threads_, a_, count_))};
    }

    MsdaInputs a_;
    Tensor output_;
    const Variant &kernel_;
    const GkaForwardHostKnobs &knobs_;
    int64_t count_ = 1;
    CallArray<int32_t> levels_;
    StagedCells value_;
    StagedLocations locations_;
    Staged weights_, target_;
};

class GkaBackwardPlan final : public Plan {
public:
    explicit GkaBackwardPlan(const GkaBackwardCall &call)
        : a_(call.inputs),
          grad_output_(call.grad_output),
          grad_value_(call.grad_value),
          grad_weights_(call.grad_weights),
          samples_kernel_(choose_variant("gka_backward_samples", a_.value.dtype)),
          value_kernel_(choose_variant("gka_backward_value", a_.value.dtype, samples_kernel_.target)),
          knobs_(host_knobs<GkaBackwardValueHostKnobs>(value_kernel_)),
          often_(a_.reads_per_cell_reach(knobs_.head_major_reads)),
          whole_(product({a_.B, a_.M}) >= knobs_.many_heads &&
                 product({a_.K, round_up(a_.D, kChannelMultiple), 4}) <= knobs_.slab_bytes) {
        if (is_nothing()) {
            return;
        }
        count_ = batches_at_once(a_, {&grad_output_}, knobs_.packed_bytes);
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count_); };
        levels_ = reserve_levels(memory_, a_.samples());
        locations_ = StagedLocations(memory_, part(a_.sampling_locations), value_kernel_);
        grads_ = stage_grad_output(memory_, part(grad_output_));
        if (grad_weights_) {
            value_ = StagedCells(memory_, part(a_.value), {often_}, {0, 2, 1, 3});
            weights_target_ = stage_samples(memory_, part(*grad_weights_));
        }
        if (grad_value_) {
            weights_ = stage_samples(memory_, part(a_.attention_weights));
            value_target_ = stage(memory_, part(*grad_value_));
            groups_ = MapGroups(memory_, a_.L);
            levels_of_groups_ = reserve_levels(memory_, a_.samples());
        }
    }

private:
    bool is_nothing() const override { return (!grad_value_ && !grad_weights_) || grad_output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { clear_gradients({&grad_value_, &grad_weights_}); }

    void run_in_memory() override {
        const LevelTable levels = make_table(levels_, a_), levels_of_groups = grad_value_ ? make_groups(levels) : LevelTable();
        for (int64_t first = 0; first < a_.B; first += count_) {
            const int64_t count = std::min(count_, a_.B - first);
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, count); };
            Samples in = {count, query_tile(knobs_, threads_, a_, count_), levels, locations_.kind(),
                          locations_.load(part(a_.sampling_locations))};
            const Tensor grads = grads_.load(part(grad_output_));
            if (grad_weights_) {
                run_heads(samples_kernel_, a_, in, value_.load(part(a_.value)), grads,
                          by_heads(join_samples(weights_target_.of(part(*grad_weights_))), a_));
                weights_target_.store(part(*grad_weights_));
            }
            if (grad_value_) {
                in.levels = levels_of_groups;
                add_all(in, join_samples(weights_.load(part(a_.attention_weights))), grads,
                        value_target_.of(part(*grad_value_)));
                value_target_.store(part(*grad_value_));
            }
        }
        set_last_variant((grad_value_ ? value_kernel_ : samples_kernel_).name);
    }

    /// By heads where these are enough for the threads and the cells of one fit into L2, or where maps share cells; else by
    /// maps. Only shapes and levels decide, since the order of sums depends on it. Returned: the table with keys counted from
    /// the first of a group.
    LevelTable make_groups(const LevelTable &levels) {
        LevelTable all = levels;
        const auto by_maps = [&] {
            groups_.make(all, a_.samples(), a_.P, a_.K);
            return std::all_of(groups_.begin(), groups_.end(), [](const MapGroup &group) { return group.size() == 1; });
        };
        whole_groups_ = whole_ || levels.check_cells || !by_maps();
        if (whole_groups_) {
            all.check_cells = true;
            by_maps();
            return levels;
        }
        all.rows = levels_of_groups_.data();
        std::copy_n(levels.rows, 2 * levels.pitch, all.rows);
        std::fill_n(all.rows + 2 * levels.pitch, levels.pitch, 0);
        return all;
    }

    /// Adds up what some heads of a batch item have for the cells of a group; `gradient` [1, cells, heads, D].
    void add(const Samples &in, const Tensor &weights, const Tensor &grads, const MapGroup &group, const Tensor &gradient,
             int64_t b, int64_t m) const {
        const int64_t first = whole_groups_ ? 0 : *group.begin() * a_.P, samples = whole_groups_ ? a_.samples() : a_.P;
        const auto of_heads = [&](const Tensor &tensor) { return slice(slice(tensor, 0, b, 1), 2, m, gradient.shape[2]); };
        const auto of_group = [&](const Tensor &tensor) { return slice(of_heads(by_heads(tensor, a_)), 3, first, samples); };
        Buffer table(in.levels.part(first, samples).tensor()), locations(of_group(in.locations)), by(of_group(weights));
        Buffer grads_buffer(of_heads(grads)), sums(gradient);
        int32_t kind = in.kind;
        bool check_cells = in.levels.check_cells;
        void *args[] = {table.get(), locations.get(), &kind, &check_cells, by.get(), grads_buffer.get(), sums.get()};
        run_kernel(value_kernel_, args);
    }

    /// The same with a slab, of one head.
    void add_to_slab(const Samples &in, const Tensor &weights, const Tensor &grads, const MapGroup &group,
                     const Tensor &gradient, int64_t b, int64_t m, bool stream) const {
        const Slab slab(item(gradient, 0, 0), false);
        add(in, weights, grads, group, slab.tensor().insert_axis(0).swap_axes(1, 2), b, m);
        slab.store(nullptr, stream);
    }

    // Kernels of 16-bit types clear, add up and round some heads of a group. In the type of arithmetic they add to what is there:
    // to the gradient itself where there are few samples, else to a slab, head by head, since what a kernel stores goes through
    // the caches: with slabs in the kernel too, gka_example takes 1.14x the time in float32, but 0.93x in float16 (2-core EPYC,
    // AVX-512, one thread).
    void add_all(const Samples &in, const Tensor &weights, const Tensor &grads, const Tensor &gradient) const {
        const bool direct = can_be_slab(gradient) && !often_, slabs = !direct && gradient.dtype.bits >= 32,
                   stream = worth_streaming(gradient, knobs_.streaming_bytes);
        if (direct) {
            fill_zero(gradient);
        }
        const int64_t most = in.count * groups_.count() * a_.M;
        const int64_t heads = slabs
                                  ? 1
                                  : std::clamp(std::max(most / (threads_ * knobs_.tasks_per_thread),
                                                        knobs_.task_samples * groups_.count() / product({a_.Q, a_.samples()})),
                                               int64_t{1}, a_.M);
        const int64_t parts = divide_up(a_.M, heads), tasks = in.count * parts;  // of a group
        parallel_for(groups_.count() * tasks, [&](int64_t task) {
            const MapGroup &group = groups_[task / tasks];
            const int64_t b = task % tasks / parts, m = task % parts * heads;
            const Tensor cells = slice(slice(gradient, 0, b, 1), 1, group.keys.first, group.keys.count);
            const Tensor of_task = slice(cells, 2, m, std::min(heads, a_.M - m));
            if (slabs) {
                add_to_slab(in, weights, grads, group, of_task, b, m, stream);
            } else {
                add(in, weights, grads, group, of_task, b, m);
            }
        });
        groups_.clear_gaps(gradient);
    }

    void try_tasks(TrialTensors &tensors) const override {
        const DLDataType type = a_.value.dtype;
        const int64_t channels = round_up(a_.D, kChannelMultiple);
        Samples in = try_samples(tensors, a_, trial_queries(query_tile(knobs_, threads_, a_, count_)));
        if (grad_weights_) {
            run_heads(samples_kernel_, a_, in, try_cells(tensors, a_),
                      tensors.make(type, {1, in.query_tile, a_.M, channels}, 2),
                      by_heads(tensors.make(type, {1, in.query_tile, a_.M * a_.samples()}, 1), a_));
        }
        if (!grad_value_) {
            return;
        }
        const int64_t queries = trial_queries(a_.Q), keys = trial_size(a_.K);
        in.locations = tensors.make(in.locations.dtype, {1, queries, a_.M * a_.samples(), 2}, 2);
        const Tensor weights = tensors.make(type, {1, queries, a_.M * a_.samples()}, 1);
        const Tensor grads = tensors.make(type, {1, queries, a_.M, channels}, 2);
        const Tensor gradient = tensors.make(type, {1, keys, a_.M, a_.D}, 2);
        constexpr int64_t kFirstMap[] = {0};
        const MapGroup group = {{0, keys}, kFirstMap, kFirstMap + 1};
        parallel_for(1, [&](int) {
            if (type.bits < 32) {
                add(in, weights, grads, group, gradient, 0, 0);
            } else {
                add_to_slab(in, weights, grads, group, slice(gradient, 2, 0, 1), 0, 0, false);
            }
        });
    }

    TrialKey trial_key() const override {
        return {reinterpret_cast<intptr_t>(&samples_kernel_),
                reinterpret_cast<intptr_t>(&value_kernel_),
                trial_size(a_.K),
                a_.M,
                a_.D,
                trial_queries(a_.Q),
                a_.L,
                a_.P,
                trial_queries(query_tile(knobs_, threads_, a_, count_)),
                grad_weights_.has_value(),
                grad_value_.has_value()};
    }

    MsdaInputs a_;
    Tensor grad_output_;
    std::optional<Tensor> grad_value_, grad_weights_;
    const Variant &samples_kernel_, &value_kernel_;
    const GkaBackwardValueHostKnobs &knobs_;
    bool often_, whole_;
    bool whole_groups_ = true;  // a group is all maps of a head: until it is known, since that takes more memory
    int64_t count_ = 1;
    CallArray<int32_t> levels_, levels_of_groups_;
    MapGroups groups_;
    StagedCells value_;
    StagedLocations locations_;
    Staged grads_, weights_, weights_target_, value_target_;
};

}  // namespace

void run(const GkaForwardCall &call) {
    GkaForwardPlan(call).run();
}

std::unique_ptr<Plan> plan(const GkaForwardCall &call) {
    return std::make_unique<GkaForwardPlan>(call);
}

void run(const GkaBackwardCall &call) {
    GkaBackwardPlan(call).run();
}

std::unique_ptr<Plan> plan(const GkaBackwardCall &call) {
    return std::make_unique<GkaBackwardPlan>(call);
}

}  // namespace deformkit
