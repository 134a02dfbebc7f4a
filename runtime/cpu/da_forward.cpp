// Deformable aggregation, forward: how a call is divided, and what its kernel is handed.

#include <algorithm>

#include "runtime/cpu/da_cells.h"
#include "runtime/cpu/plan.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"
#include "schedules/da_knobs.h"

namespace deformkit {

namespace {

/// How the points of an anchor are shared out.
struct Parts {
    int64_t count, points;
};

/// [B, A, P, N, ...] as [B, A * parts, points * N, ...].
Tensor arrange(const Tensor &tensor, const Parts &parts) {
    const Tensor joined = tensor.join_axes(2);
    return parts.count == 1 ? joined : joined.split_axis(2, parts.points * tensor.shape[3]).join_axes(1);
}

bool arrangeable(const Tensor &tensor, const Parts &parts) {
    if (!tensor.can_join_axes(2) || parts.count * parts.points != tensor.shape[2] || !fits_buffer(tensor)) {
        return false;
    }
    if (parts.count > 1 && !tensor.join_axes(2).split_axis(2, parts.points * tensor.shape[3]).can_join_axes(1)) {
        return false;
    }
    const Tensor arranged = arrange(tensor, parts);
    // A location is two numbers, and the next one follows.
    return dense(arranged, arranged.ndim - 1) && (arranged.ndim > 4 || arranged.shape[2] <= 1 || arranged.strides[2] == 2);
}

class DaForwardPlan final : public Plan {
public:
    explicit DaForwardPlan(const DaForwardCall &call)
        : a_(call.inputs),
          output_(call.output),
          kernel_(choose_variant("da_forward", a_.feature_maps.dtype)),
          knobs_(host_knobs<DaForwardHostKnobs>(kernel_)) {
        if (is_nothing()) {
            return;
        }
        count_ = batches_at_once(a_, output_, knobs_.packed_bytes);
        // Where anchors are few, the points of one are shared out. Only shapes decide, so that the order of sums does not
        // depend on the number of threads.
        if (a_.B * a_.A < knobs_.few_anchors) {
            const int64_t most = divide_up(knobs_.few_anchors, a_.B * a_.A);
            const int64_t wanted = std::clamp<int64_t>(a_.P * a_.N / knobs_.part_samples, 1, most);
            parts_.points = divide_up(a_.P, wanted);
            parts_.count = divide_up(a_.P, parts_.points);
        } else {
            parts_ = {1, a_.P};
        }
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count_); };
        maps_ = DaCells(memory_, a_, count_);
        locations_ = stage_parts(part(a_.sample_locations));
        weights_ = stage_parts(part(a_.weights));
        target_ = stage(memory_, part(output_));
    }

private:
    bool is_nothing() const override { return output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { fill_zero(output_); }

    /// Points that fill up the last part are zero: at location (0, 0), which takes no part.
    Staged stage_parts(const Tensor &tensor) {
        // Points of all cameras are one axis for kernels, and so are the parts of all anchors.
        if (product({parts_.points, a_.N}) > kMostOfAxis || product({a_.A, parts_.count}) > kMostOfAxis) {
            fail_too_large(tensor, "less than 2^31 samples of an anchor");
        }
        if (arrangeable(tensor, parts_)) {
            return {};
        }
        Tensor padded = tensor;
        padded.shape[2] = parts_.count * parts_.points;
        return stage_copy(memory_, dense_like(padded, nullptr));
    }

    int64_t anchor_tile() const {
        return parts_.count > 1 ? a_.A
                                : std::clamp<int64_t>(divide_up(a_.A, divide_up(knobs_.tiles_per_thread * threads_, count_)), 1,
                                                      knobs_.most_task_anchors);
    }

    void run_in_memory() override {
        const LevelTable table = maps_.make_table(a_);
        for (int64_t first = 0; first < a_.B; first += count_) {
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, std::min(count_, a_.B - first)); };
            run_task(table, anchor_tile(), maps_.load(part(a_.feature_maps)),
                     arrange(locations_.load(part(a_.sample_locations)), parts_),
                     arrange(weights_.load(part(a_.weights)), parts_), target_.of(part(output_)));
            target_.store(part(output_));
        }
        set_last_variant(kernel_.name);
    }

    void run_task(const LevelTable &table, int64_t tile, const Cells &cells, const Tensor &at, const Tensor &by,
                  const Tensor &result) const {
        Buffer maps(cells.tensor), map_table(table.tensor()), locations(at), weights(by), output(result);
        maps.flatten_keys(2);
        int32_t num_keys = cells.num_keys, key_step = cells.key_step, num_cameras = static_cast<int32_t>(a_.N);
        int32_t num_parts = static_cast<int32_t>(parts_.count), anchors = static_cast<int32_t>(tile);
        int32_t parts = parts_.count > 1 ? 1 : anchors;
        bool check_cells = table.check_cells;
        void *args[] = {maps.get(),   map_table.get(), locations.get(), weights.get(), &num_keys, &key_step,
                        &num_cameras, &num_parts,      &check_cells,    &anchors,      &parts,    output.get()};
        run_kernel(kernel_, args);
    }

    void try_tasks(TrialTensors &tensors) const override {
        const DLDataType type = a_.feature_maps.dtype;
        const int64_t anchors = trial_size(anchor_tile()), items = anchors * parts_.count, points = parts_.points * a_.N;
        const Cells cells{tensors.make(type, {1, a_.K, a_.G, round_up(a_.D, kChannelMultiple)}, 2), static_cast<int32_t>(a_.K),
                          0};
        run_task(tensors.make_levels(a_.N * a_.S), anchors, cells, tensors.make(type, {1, items, points, 2}, 2),
                 tensors.make(type, {1, items, points, a_.S, a_.G}, 1), tensors.make(type, {1, anchors, a_.G, a_.D}, 2));
    }

    TrialKey trial_key() const override {
        return {reinterpret_cast<intptr_t>(&kernel_),
                a_.G,
                a_.D,
                parts_.points,
                parts_.count,
                a_.N,
                a_.S,
                trial_size(anchor_tile())};
    }

    DaInputs a_;
    Tensor output_;
    const Variant &kernel_;
    const DaForwardHostKnobs &knobs_;
    int64_t count_ = 1;  // batch items at once
    Parts parts_{1, 0};
    DaCells maps_;
    Staged locations_, weights_, target_;
};

}  // namespace

void run(const DaForwardCall &call) {
    DaForwardPlan(call).run();
}

std::unique_ptr<Plan> plan(const DaForwardCall &call) {
    return std::make_unique<DaForwardPlan>(call);
}

}  // namespace deformkit
