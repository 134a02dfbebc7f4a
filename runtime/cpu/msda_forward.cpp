// Multi-scale deformable attention, forward: how a call is divided, and what its kernels are handed.

#include <algorithm>
#include <cstdlib>

#include "runtime/cpu/blocks.h"
#include "runtime/cpu/plan.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"
#include "schedules/msda_knobs.h"

namespace deformkit {

namespace {

class MsdaForwardPlan final : public Plan {
public:
    explicit MsdaForwardPlan(const MsdaForwardCall &call)
        : a_(call.inputs),
          output_(call.output),
          row_(choose_variant("msda_forward", a_.value.dtype)),
          kernel_(&row_),
          knobs_(host_knobs<MsdaForwardHostKnobs>(row_)) {
        if (is_nothing()) {
            return;
        }
        count_ = batches_at_once(a_, {&output_}, knobs_.packed_bytes);
        Packing packing;
        const bool pays = a_.reads_per_cell_reach(knobs_.head_major_reads);
        if (const Variant *head_major = in_place_of(row_, "msda_forward_head_major", pays)) {
            kernel_ = head_major;
            // float16 and bfloat16 are converted once, rather than with each sample: against that, float16 takes 0.8x the time
            // on detr_encoder (Xeon, AVX-512, one thread), bfloat16 0.93x.
            packing.widen = companion(row_, "convert_widen");
            packing.always = packing.widen != nullptr || a_.reads_per_cell_reach(knobs_.packing_reads);
            blocks_ = Blocks(memory_, a_.samples(), knobs_.block_queries);
        }
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count_); };
        levels_ = reserve_levels(memory_, a_.M * a_.samples());
        value_ = StagedCells(memory_, part(a_.value), packing, {0, 2, 1, 3});
        locations_ = stage_samples(memory_, part(a_.sampling_locations));
        weights_ = stage_samples(memory_, part(a_.attention_weights));
        if (!by_blocks()) {
            target_ = stage(memory_, part(output_));
        }
    }

private:
    struct Task {
        int64_t queries;  // that a task of the kernel takes
        Tensor value, locations, weights, output;
    };

    bool is_nothing() const override { return output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { fill_zero(output_); }
    bool by_blocks() const { return kernel_ != &row_; }

    /// Queries of a task: enough tasks for the threads to share evenly, but large enough to reuse what is in the caches.
    int64_t query_tile() const {
        const int64_t tiles = divide_up(threads_, count_);
        const int64_t smallest = divide_up(knobs_.task_samples, std::max<int64_t>(a_.M * a_.samples(), 1));
        return std::min(
            a_.Q, std::clamp(divide_up(a_.Q, tiles), std::min(smallest, knobs_.most_task_queries), knobs_.most_task_queries));
    }

    void run_in_memory() override {
        const LevelTable levels = make_level_table(
            levels_, a_.L, [&](int64_t l) { return a_.level(l); }, a_.M, a_.P, a_.K);
        if (by_blocks()) {
            blocks_.make(levels, a_.samples(), a_.Q, a_.K);
        }
        for (int64_t first = 0; first < a_.B; first += count_) {
            const int64_t count = std::min(count_, a_.B - first);
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, count); };
            const Cells value = value_.load(part(a_.value));
            const Task all = {query_tile(), value.tensor, join_samples(locations_.load(part(a_.sampling_locations))),
                              join_samples(weights_.load(part(a_.attention_weights))), target_.of(part(output_))};
            if (by_blocks()) {
                run_blocks(levels, value, all, count);
            } else {
                run_task(levels, value, all);
                target_.store(part(output_));
            }
        }
        set_last_variant(kernel_->name);
    }

    /// A task for each block: its rows stand where batch items do, and all of them read the same value.
    void run_blocks(const LevelTable &levels, const Cells &value, const Task &all, int64_t count) const {
        const bool stream = worth_streaming(output_, knobs_.streaming_bytes);
        const int64_t stride = std::max(std::abs(all.locations.strides[1]), std::abs(all.weights.strides[1]));
        parallel_for_neighbours(count * blocks_.count(), knobs_.ranges_per_thread, [&](int64_t task) {
            const int64_t b = task / blocks_.count();
            for_addressable_parts(blocks_[task % blocks_.count()], stride, [&](const Block &block) {
                const auto part = [&](const Tensor &tensor) { return block_of(item(tensor, 0, b), 0, block); };
                Tensor cells = slice(all.value, 0, b, block.height);
                cells.strides[0] = 0;
                run_block(levels, value, {block.width, cells, part(all.locations), part(all.weights), part(all.output)},
                          stream);
            });
        });
    }

    /// Through memory that stays in L2: a block writes a line pair here and there.
    void run_block(const LevelTable &levels, const Cells &value, Task block, bool stream) const {
        const Scratch scratch(block.output.elements() * block.output.element_bytes());
        const Tensor target = block.output;
        block.output = dense_like(target, scratch.data());
        run_task(levels, value, block);
        copy_block(block.output, target, stream);
    }

    void run_task(const LevelTable &levels, const Cells &value, const Task &task) const {
        Buffer value_buffer(task.value), table(levels.tensor()), locations(task.locations), weights(task.weights);
        Buffer output(task.output);
        value_buffer.flatten_keys(2);
        int32_t num_keys = value.num_keys, key_step = value.key_step;
        int32_t num_samples = static_cast<int32_t>(a_.samples()), queries = static_cast<int32_t>(task.queries);
        bool check_cells = levels.check_cells;
        void *args[] = {value_buffer.get(), table.get(),  locations.get(), weights.get(), &num_keys,
                        &key_step,          &num_samples, &check_cells,    &queries,      output.get()};
        run_kernel(*kernel_, args);
    }

    void try_tasks(TrialTensors &tensors) const override {
        const LevelTable levels = tensors.make_levels(a_.M * a_.samples());
        const Cells cells{{}, static_cast<int32_t>(a_.K), 0};
        const DLDataType storage = a_.value.dtype, of_cells = by_blocks() ? arithmetic_type(storage) : storage;
        const auto task_of = [&](int64_t height, int64_t width) {
            const int64_t samples = a_.M * a_.samples(), channels = round_up(a_.D, kChannelMultiple);
            return Task{width, tensors.make(of_cells, {height, cells.num_keys, a_.M, channels}, 2),
                        tensors.make(storage, {height, width, samples, 2}, 2),
                        tensors.make(storage, {height, width, samples}, 1),
                        tensors.make(storage, {height, width, a_.M, a_.D}, 2)};
        };
        if (!by_blocks()) {
            run_task(levels, cells, task_of(1, trial_size(query_tile())));
            return;
        }
        for (const Block &block : {blocks_.longest_run(), blocks_.largest_rectangle()}) {
            parallel_for(1, [&](int) { run_block(levels, cells, task_of(block.height, block.width), false); });
        }
    }

    TrialKey trial_key() const override {
        return {reinterpret_cast<intptr_t>(kernel_), a_.M, a_.samples(), a_.D,
                by_blocks() ? knobs_.block_queries : trial_size(query_tile())};
    }

    MsdaInputs a_;
    Tensor output_;
    const Variant &row_, *kernel_;  // of the dispatch table, and what runs in its place where cells are read often
    const MsdaForwardHostKnobs &knobs_;
    int64_t count_ = 1;  // batch items at once
    CallArray<int32_t> levels_;
    Blocks blocks_;
    StagedCells value_;
    Staged locations_, weights_, target_;  // blocks are written to scratch memory, and copied from there
};

}  // namespace

void run(const MsdaForwardCall &call) {
    MsdaForwardPlan(call).run();
}

std::unique_ptr<Plan> plan(const MsdaForwardCall &call) {
    return std::make_unique<MsdaForwardPlan>(call);
}

}  // namespace deformkit
