// Deformable aggregation, backward: how a call is divided, and what its kernels are handed.

#include <algorithm>
#include <optional>

#include "runtime/cpu/da_cells.h"
#include "runtime/cpu/plan.h"
#include "runtime/cpu/slabs.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/interface/gradients.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"
#include "schedules/da_knobs.h"

namespace deformkit {

namespace {

class DaBackwardPlan final : public Plan {
public:
    explicit DaBackwardPlan(const DaBackwardCall &call)
        : a_(call.inputs),
          grad_output_(call.grad_output),
          grad_maps_(call.grad_feature_maps),
          grad_locations_(call.grad_locations),
          grad_weights_(call.grad_weights),
          samples_kernel_(choose_variant("da_backward_samples", a_.feature_maps.dtype)),
          maps_kernel_(choose_variant("da_backward_value", a_.feature_maps.dtype, samples_kernel_.target)),
          narrow_kernel_(companion(maps_kernel_, "convert_narrow")),
          knobs_(host_knobs<DaBackwardValueHostKnobs>(maps_kernel_)) {
        if (is_nothing()) {
            return;
        }
        count_ = batches_at_once(a_, grad_output_, knobs_.packed_bytes);
        // A task is some anchors on one camera, or, where that is too much, some points of one: what its samples leave behind
        // before it is written, three numbers for each sample, scale and group, stays in L2.
        const int64_t point_bytes = 3 * a_.S * std::max<int64_t>(a_.G, 1) * arithmetic_type(a_.feature_maps.dtype).bits / 8;
        const int64_t wanted = std::min(divide_up(a_.A * a_.P * count_ * a_.N, knobs_.tasks_per_thread * threads_),
                                        knobs_.task_bytes / point_bytes);
        points_ = std::clamp<int64_t>(wanted, 1, a_.P);
        anchors_ = std::clamp<int64_t>(wanted / a_.P, 1, a_.A);
        const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, 0, count_); };
        maps_ = DaCells(memory_, a_, count_);
        grads_ = stage_grad_output(memory_, part(grad_output_));
        locations_ = stage(memory_, part(a_.sample_locations));
        weights_ = stage(memory_, part(a_.weights));
        if (grad_locations_) {
            locations_target_ = stage(memory_, part(*grad_locations_));
        }
        if (grad_weights_) {
            weights_target_ = stage(memory_, part(*grad_weights_));
        }
        if (grad_maps_) {
            maps_target_ = stage(memory_, part(*grad_maps_));
            groups_ = MapGroups(memory_, a_.N * a_.S);
        }
    }

private:
    /// Some batch items, as kernels see them.
    struct Batches {
        int64_t count;
        LevelTable table;
        Cells maps;
        Tensor grads, locations, weights;
        Tensor grad_locations, grad_weights;
    };

    bool is_nothing() const override { return (!of_samples() && !grad_maps_) || grad_output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { clear_gradients({&grad_maps_, &grad_locations_, &grad_weights_}); }
    bool of_samples() const { return grad_locations_ || grad_weights_; }

    void run_in_memory() override {
        const LevelTable table = maps_.make_table(a_);
        if (grad_maps_) {
            groups_.make(table, table.columns, 1, a_.K);
        }
        for (int64_t first = 0; first < a_.B; first += count_) {
            const int64_t count = std::min(count_, a_.B - first);
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, count); };
            Batches in;
            in.count = count;
            in.table = table;
            in.grads = grads_.load(part(grad_output_));
            in.locations = locations_.load(part(a_.sample_locations));
            in.weights = weights_.load(part(a_.weights));
            if (of_samples()) {
                in.maps = maps_.load(part(a_.feature_maps));
                // What is not wanted has no anchors.
                in.grad_locations =
                    grad_locations_ ? locations_target_.of(part(*grad_locations_)) : slice(in.locations, 1, 0, 0);
                in.grad_weights = grad_weights_ ? weights_target_.of(part(*grad_weights_)) : slice(in.weights, 1, 0, 0);
                run_samples(in);
            }
            if (grad_locations_) {
                locations_target_.store(part(*grad_locations_));
            }
            if (grad_weights_) {
                weights_target_.store(part(*grad_weights_));
            }
            if (grad_maps_) {
                scatter_all(in, maps_target_.of(part(*grad_maps_)));
                maps_target_.store(part(*grad_maps_));
            }
        }
        set_last_variant((grad_maps_ ? maps_kernel_ : samples_kernel_).name);
    }

    void run_samples(const Batches &in) const {
        const int64_t point_tiles = divide_up(a_.P, points_), anchor_tiles = divide_up(a_.A, anchors_);
        parallel_for(in.count * a_.N * anchor_tiles * point_tiles, [&](int64_t task) {
            const int64_t p = task % point_tiles * points_, v = task / point_tiles % anchor_tiles * anchors_;
            const int64_t n = task / (point_tiles * anchor_tiles) % a_.N, b = task / (point_tiles * anchor_tiles * a_.N);
            run_tile(in, b, n, {v, std::min(anchors_, a_.A - v)}, {p, std::min(points_, a_.P - p)});
        });
    }

    struct Range {
        int64_t first, count;
    };

    void run_tile(const Batches &in, int64_t b, int64_t n, const Range &anchors, const Range &points) const {
        const auto part = [&](const Tensor &tensor) {
            const int64_t wanted = tensor.shape[1] == 0 ? 0 : anchors.count;
            return item(slice(slice(item(tensor, 0, b), 0, anchors.first, wanted), 1, points.first, points.count), 2, n);
        };
        Buffer maps(item(in.maps.tensor, 0, b)), table(in.table.part(n * a_.S, a_.S).tensor());
        Buffer locations(part(in.locations)), weights(part(in.weights));
        Buffer grads(slice(item(in.grads, 0, b), 0, anchors.first, anchors.count));
        Buffer grad_locations(part(in.grad_locations)), grad_weights(part(in.grad_weights));
        maps.flatten_keys(2);
        int32_t num_keys = in.maps.num_keys, key_step = in.maps.key_step;
        bool check_cells = in.table.check_cells;
        void *args[] = {maps.get(), table.get(), locations.get(), weights.get(),        grads.get(),
                        &num_keys,  &key_step,   &check_cells,    grad_locations.get(), grad_weights.get()};
        run_kernel(samples_kernel_, args);
    }

    void scatter_all(const Batches &in, const Tensor &gradient) const {
        const bool direct = can_be_slab(gradient), stream = worth_streaming(gradient, knobs_.streaming_bytes);
        // Blocks of channels are independent of each other, so that how many there are changes no bit.
        const int64_t slabs = std::max<int64_t>(1, in.count * groups_.count());
        const int64_t wanted = std::clamp<int64_t>(divide_up(knobs_.tasks_per_thread * threads_, slabs), 1, a_.G);
        const int64_t block = divide_up(a_.G, wanted), blocks = divide_up(a_.G, block);
        parallel_for(in.count * groups_.count() * blocks, [&](int64_t task) {
            const int64_t g = task % blocks * block, b = task / blocks % in.count, num_groups = std::min(block, a_.G - g);
            const MapGroup &group = groups_[task / (blocks * in.count)];
            const Tensor cells = slice(item(gradient, 0, b), 0, group.keys.first, group.keys.count);
            const Tensor of_task = slice(cells, 1, g, num_groups);
            if (direct) {
                clear_block(of_task);
            }
            const Slab slab(of_task, direct);
            const Tensor grads = slice(item(in.grads, 0, b), 1, g, num_groups);
            for (const int64_t map : group) {
                const int64_t n = map / a_.S, s = map % a_.S;
                scatter_map(in.table.part(map, 1), group.keys.first, item(item(in.locations, 0, b), 2, n),
                            slice(item(item(item(in.weights, 0, b), 2, n), 2, s), 2, g, num_groups), grads, slab.tensor());
            }
            slab.store(narrow_kernel_, stream);
        });
        groups_.clear_gaps(gradient);
    }

    /// `at` [A, P, 2], `by` [A, P, G], `gradients` [A, G, D'], `slab` [G, cells, D']. Keys of the map count from `first_key`.
    void scatter_map(const LevelTable &map, int64_t first_key, const Tensor &at, const Tensor &by, const Tensor &gradients,
                     const Tensor &slab) const {
        int32_t rows[] = {map.width(0), map.height(0), static_cast<int32_t>(map.first_key(0) - first_key)};
        LevelTable relative = map;
        relative.rows = rows;
        relative.pitch = 1;
        Buffer table(relative.tensor()), locations(at), weights(by), grad_output(gradients), sums(slab.swap_axes(0, 1));
        bool check_cells = map.check_cells;
        void *args[] = {table.get(), locations.get(), weights.get(), grad_output.get(), &check_cells, sums.get()};
        run_kernel(maps_kernel_, args);
    }

    void try_tasks(TrialTensors &tensors) const override {
        const DLDataType type = a_.feature_maps.dtype;
        const int64_t channels = round_up(a_.D, kChannelMultiple);
        Batches in;
        in.table = tensors.make_levels(a_.N * a_.S);
        in.maps = {tensors.make(type, {1, a_.K, a_.G, channels}, 2), static_cast<int32_t>(a_.K), 0};
        const int64_t anchors = trial_size(anchors_), points = trial_size(points_), keys = trial_size(a_.K);
        in.grads = tensors.make(type, {1, anchors, a_.G, channels}, 2);
        in.locations = in.grad_locations = tensors.make(type, {1, anchors, points, a_.N, 2}, 1);
        in.weights = in.grad_weights = tensors.make(type, {1, anchors, points, a_.N, a_.S, a_.G}, 2);
        parallel_for(1, [&](int) { run_tile(in, 0, 0, {0, anchors}, {0, points}); });
        if (grad_maps_) {
            parallel_for(1, [&](int) {
                const Slab slab(tensors.make(type, {keys, a_.G, a_.D}, 2), false);
                scatter_map(in.table.part(0, 1), 0, tensors.make(type, {1, a_.P, 2}, 1), tensors.make(type, {1, a_.P, a_.G}, 1),
                            tensors.make(type, {1, a_.G, channels}, 2), slab.tensor());
                slab.store(narrow_kernel_, false);
            });
        }
    }

    // The kernel that scatters takes one anchor after the other.
    TrialKey trial_key() const override {
        return {reinterpret_cast<intptr_t>(&samples_kernel_),
                reinterpret_cast<intptr_t>(&maps_kernel_),
                trial_size(a_.K),
                a_.G,
                a_.D,
                a_.P,
                a_.N,
                a_.S,
                trial_size(anchors_),
                trial_size(points_),
                grad_maps_.has_value()};
    }

    DaInputs a_;
    Tensor grad_output_;
    std::optional<Tensor> grad_maps_, grad_locations_, grad_weights_;  // those that are wanted
    const Variant &samples_kernel_, &maps_kernel_, *narrow_kernel_;
    const DaBackwardValueHostKnobs &knobs_;
    int64_t count_ = 1;                 // batch items at once
    int64_t anchors_ = 0, points_ = 0;  // of a task
    DaCells maps_;
    MapGroups groups_;
    Staged grads_, locations_, weights_, maps_target_, locations_target_, weights_target_;
};

}  // namespace

void run(const DaBackwardCall &call) {
    DaBackwardPlan(call).run();
}

std::unique_ptr<Plan> plan(const DaBackwardCall &call) {
    return std::make_unique<DaBackwardPlan>(call);
}

}  // namespace deformkit
