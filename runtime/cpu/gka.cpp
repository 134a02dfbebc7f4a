// Geometric kernel attention: how a call is divided, and what its kernels are handed.

#include <algorithm>
#include <optional>

#include "runtime/cpu/gka_locations.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/slabs.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"
#include "schedules/gka_knobs.h"

namespace deformkit {

namespace {

/// Careful also where a level has no cells.
LevelTable make_table(CallArray<int32_t> &memory, const MsdaInputs &a) {
    LevelTable levels = make_level_table(
        memory, a.L, [&](int64_t l) { return a.level(l); }, 1, a.P, a.K);
    levels.careful = levels.careful || levels.has_empty;
    return levels;
}

/// Some batch items as kernels see them: what they go over once more for each sample of a head, and what they write.
struct Heads {
    int64_t count;
    LevelTable levels;
    Cells value;
    int32_t kind;
    Tensor locations;      // [count, Q, M * S, 2]
    Tensor input, output;  // weights and output, or gradients of output and of weights
    bool samples_in;
};

/// Runs task(b, m, first query, number of queries) for all heads of `count` batch items, in parallel.
template <typename Knobs, typename Task>
void for_each_head(const MsdaInputs &a, const Knobs &knobs, int64_t count, Task &&task) {
    const int64_t smallest = divide_up(knobs.task_samples, std::max<int64_t>(a.samples(), 1));
    const int64_t wanted = divide_up(a.Q, divide_up(num_threads() * knobs.tasks_per_thread, count * a.M));
    const int64_t tile = std::min(a.Q, std::max(wanted, smallest)), tiles = divide_up(a.Q, tile);
    parallel_for(static_cast<int>(count * a.M * tiles), [&](int i) {
        const int64_t begin = i % tiles * tile;
        task(i / tiles / a.M, i / tiles % a.M, begin, std::min(tile, a.Q - begin));
    });
}

void run_head(const Variant &kernel, const MsdaInputs &a, const Heads &in, int64_t b, int64_t m, int64_t begin,
              int64_t queries) {
    const auto rows = [&](const Tensor &tensor) { return slice(item(item(tensor, 0, b), 1, m), 0, begin, queries); };
    const auto samples = [&](const Tensor &tensor) {
        return slice(slice(item(tensor, 0, b), 1, m * a.samples(), a.samples()), 0, begin, queries);
    };
    Buffer value(item(item(in.value.tensor, 0, b), 1, m)), table(in.levels.tensor()), locations(samples(in.locations));
    Buffer input(in.samples_in ? samples(in.input) : rows(in.input)),
        output(in.samples_in ? rows(in.output) : samples(in.output));
    value.flatten_keys(1);
    int32_t num_keys = in.value.num_keys, key_step = in.value.key_step, kind = in.kind;
    bool careful = in.levels.careful;
    void *args[] = {value.get(), table.get(), locations.get(), input.get(), &num_keys,
                    &key_step,   &kind,       &careful,        output.get()};
    run_kernel(kernel, args, {});
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
        value_ = StagedCells(memory_, part(a_.value), kernel_, packing, {0, 2, 1, 3}, std::max<int64_t>(a_.K, kMinCells));
        locations_ = StagedCellLocations(memory_, part(a_.sampling_locations), kernel_);
        weights_ = stage_samples(memory_, part(a_.attention_weights), kernel_);
        target_ = stage(memory_, part(output_), kernel_);
    }

private:
    bool is_nothing() const { return output_.empty() || a_.is_empty(); }

    void run_in_memory() override {
        set_last_variant("");
        if (is_nothing()) {
            fill_zero(output_);
            return;
        }
        const LevelTable levels = make_table(levels_, a_);
        for (int64_t first = 0; first < a_.B; first += count_) {
            const int64_t count = std::min(count_, a_.B - first);
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, count); };
            const Heads in = {count,
                              levels,
                              value_.load(part(a_.value)),
                              locations_.kind(),
                              locations_.load(part(a_.sampling_locations)),
                              join_samples(weights_.load(part(a_.attention_weights))),
                              target_.of(part(output_)),
                              true};
            for_each_head(a_, knobs_, count, [&](int64_t b, int64_t m, int64_t begin, int64_t queries) {
                run_head(kernel_, a_, in, b, m, begin, queries);
            });
            target_.store(part(output_));
        }
        set_last_variant(kernel_.name);
    }
    void try_tasks(TrialTensors &) const override {}
    std::vector<int64_t> trial_key() const override { return {}; }

    MsdaInputs a_;
    Tensor output_;
    const Variant &kernel_;
    const GkaForwardHostKnobs &knobs_;
    int64_t count_ = 1;
    CallArray<int32_t> levels_;
    StagedCells value_;
    StagedCellLocations locations_;
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
          value_kernel_(choose_variant("gka_backward_value", a_.value.dtype)),
          narrow_kernel_(companion(value_kernel_, "convert_narrow")),
          knobs_(host_knobs<GkaBackwardValueHostKnobs>(value_kernel_)) {
        if (is_nothing()) {
            return;
        }
        count_ = batches_at_once(a_, {&grad_output_}, knobs_.packed_bytes);
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count_); };
        levels_ = reserve_levels(memory_, a_.samples());
        locations_ = StagedCellLocations(memory_, part(a_.sampling_locations), value_kernel_);
        rows_ = stage_rows(memory_, part(grad_output_), value_kernel_);
        if (grad_weights_) {
            const Packing packing = {often()};
            value_ = StagedCells(memory_, part(a_.value), samples_kernel_, packing, {0, 2, 1, 3},
                                 std::max<int64_t>(a_.K, kMinCells));
            weights_target_ = stage_samples(memory_, part(*grad_weights_), samples_kernel_);
        }
        if (grad_value_) {
            weights_ = stage_samples(memory_, part(a_.attention_weights), value_kernel_);
            value_target_ = stage(memory_, part(*grad_value_), value_kernel_);
            groups_ = MapGroups(memory_, a_.L);
        }
    }

private:
    bool is_nothing() const { return (!grad_value_ && !grad_weights_) || grad_output_.empty() || a_.is_empty(); }
    bool often() const { return a_.reads_per_cell_reach(knobs_.head_major_reads); }

    void run_in_memory() override {
        set_last_variant("");
        if (is_nothing()) {
            for (const std::optional<Tensor> *gradient : {&grad_value_, &grad_weights_}) {
                if (*gradient) {
                    fill_zero(**gradient);
                }
            }
            return;
        }
        const LevelTable levels = make_table(levels_, a_);
        // By heads where these are enough for the threads and the cells of one fit into L2; else by maps. Shapes alone decide,
        // since the order of sums in maps that share cells depends on it.
        whole_ = a_.B * a_.M >= knobs_.many_heads && a_.K * round_up(a_.D, kChannelMultiple) * 4 <= knobs_.slab_bytes;
        if (grad_value_) {
            LevelTable all = levels;
            all.careful = levels.careful || whole_;
            groups_.make(all, a_.samples(), a_.P, a_.K);
        }
        for (int64_t first = 0; first < a_.B; first += count_) {
            const int64_t count = std::min(count_, a_.B - first);
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, count); };
            Heads in = {count,
                        levels,
                        {},
                        locations_.kind(),
                        locations_.load(part(a_.sampling_locations)),
                        rows_.load(part(grad_output_)),
                        {},
                        false};
            if (grad_weights_) {
                in.value = value_.load(part(a_.value));
                in.output = join_samples(weights_target_.of(part(*grad_weights_)));
                for_each_head(a_, knobs_, count, [&](int64_t b, int64_t m, int64_t begin, int64_t queries) {
                    run_head(samples_kernel_, a_, in, b, m, begin, queries);
                });
                weights_target_.store(part(*grad_weights_));
            }
            if (grad_value_) {
                scatter_all(in, join_samples(weights_.load(part(a_.attention_weights))), value_target_.of(part(*grad_value_)));
                value_target_.store(part(*grad_value_));
            }
        }
        set_last_variant((grad_value_ ? value_kernel_ : samples_kernel_).name);
    }

    void scatter_all(const Heads &in, const Tensor &weights, const Tensor &gradient) const {
        // Few samples: straight into the gradient, where a slab would only be cleared and copied.
        const bool direct = can_be_slab(gradient) && !often(), stream = worth_streaming(gradient, knobs_.streaming_bytes);
        if (direct) {
            for (const MapGroup &group : groups_) {
                fill_zero(slice(gradient, 1, group.keys.first, group.keys.count));
            }
        }
        const int64_t heads = in.count * a_.M;
        parallel_for(static_cast<int>(groups_.count() * heads), [&](int task) {
            const int64_t m = task % a_.M, b = task / a_.M % in.count;
            const MapGroup &group = groups_[task / heads];
            const Tensor of_task = slice(slice(item(gradient, 0, b), 0, group.keys.first, group.keys.count), 1, m, 1);
            const Slab slab(of_task, direct);
            Buffer sums(item(slab.tensor(), 0, 0)), rows(item(item(in.input, 0, b), 1, m));
            bool careful = in.levels.careful;
            int32_t kind = in.kind;
            const auto scatter = [&](int64_t first, int64_t count) {
                const auto samples = [&](const Tensor &tensor) {
                    return slice(item(tensor, 0, b), 1, m * a_.samples() + first, count);
                };
                Scratch memory(3 * count * sizeof(int32_t));
                LevelTable table = in.levels.part(first, count);
                auto *relative = reinterpret_cast<int32_t *>(memory.data());
                for (int64_t i = 0; i < count; i++) {
                    relative[i] = table.width(i);
                    relative[count + i] = table.height(i);
                    relative[2 * count + i] = static_cast<int32_t>(table.first_key(i) - group.keys.first);
                }
                table.rows = relative;
                table.pitch = count;
                Buffer table_buffer(table.tensor()), locations(samples(in.locations)), by(samples(weights));
                void *args[] = {table_buffer.get(), locations.get(), by.get(), rows.get(), &kind, &careful, sums.get()};
                run_kernel(value_kernel_, args, {});
            };
            if (whole_) {
                scatter(0, a_.samples());
            } else {
                for (const int64_t l : group) {
                    scatter(l * a_.P, a_.P);
                }
            }
            slab.store(narrow_kernel_, stream);
        });
        groups_.clear_gaps(gradient);
    }
    void try_tasks(TrialTensors &) const override {}
    std::vector<int64_t> trial_key() const override { return {}; }

    MsdaInputs a_;
    Tensor grad_output_;
    std::optional<Tensor> grad_value_, grad_weights_;
    const Variant &samples_kernel_, &value_kernel_, *narrow_kernel_;
    const GkaBackwardValueHostKnobs &knobs_;
    int64_t count_ = 1;
    bool whole_ = false;  // a task takes all levels of a head
    CallArray<int32_t> levels_;
    MapGroups groups_;
    StagedCells value_;
    StagedCellLocations locations_;
    Staged rows_, weights_, weights_target_, value_target_;
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
