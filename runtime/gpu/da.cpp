// Deformable aggregation on a GPU: what its kernels are handed.

#include <algorithm>

#include "runtime/dispatch/kernel.h"
#include "runtime/gpu/plan.h"
#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"
#include "schedules/da_gpu_knobs.h"

namespace deformkit {

namespace {

constexpr int64_t kSharedBytes = 46 << 10, kTapBytes = 32;

/// What every kernel reads, of some batch items.
struct Samples {
    Samples(const DaInputs &a, const Tensor &locations, const Tensor &weights)
        : starts(a.scale_start_index, a.first_key),
          spatial_shape(a.spatial_shape, Elements::kIndices),
          scale_start_index(starts.of(a.scale_start_index), Elements::kIndices),
          locations(locations, Elements::kNumbers),
          weights(weights, Elements::kNumbers),
          num_keys(static_cast<int32_t>(a.K)) {}

    std::vector<void *> with(std::initializer_list<void *> others) {
        std::vector<void *> args = {spatial_shape.get(), scale_start_index.get(), locations.get(), weights.get(), &num_keys};
        args.insert(args.end(), others);
        return args;
    }

    ShiftedStarts starts;
    DeviceTensor spatial_shape, scale_start_index, locations, weights;
    int32_t num_keys;
};

/// Batch items at once, so that tensors have fewer than 2^31 elements.
int64_t batches(const DaInputs &a) {
    int64_t most = 1;
    for (const Tensor *tensor : {&a.feature_maps, &a.sample_locations, &a.weights}) {
        most = std::max(most, tensor->elements() / tensor->shape[0] * 2);
    }
    most = std::max(most, a.A * a.G * a.D * 2);
    return std::clamp<int64_t>(INT32_MAX / most, 1, a.B);
}

/// Groups of a block of threads, and anchors or cameras, each of which takes so much shared memory.
struct Tiles {
    int32_t groups, items;
};

Tiles tiles(const char *name, int64_t block_threads, int64_t lanes, int64_t groups, int64_t item_bytes, int64_t group_bytes,
            int64_t most) {
    constexpr int64_t kMostAlongZ = 64;
    const int64_t by_threads = std::clamp<int64_t>(block_threads / lanes, 1, groups);
    const int64_t of_groups =
        std::clamp<int64_t>(group_bytes == 0 ? groups : (kSharedBytes - item_bytes) / group_bytes, 1, by_threads);
    const int64_t bytes = item_bytes + of_groups * group_bytes;
    if (bytes > kSharedBytes) {
        throw Failure(DEFORMKIT_NO_VARIANT,
                      std::string(name) + ": on a GPU, expected fewer cameras, scales and channels of a group");
    }
    return {static_cast<int32_t>(of_groups),
            static_cast<int32_t>(std::clamp<int64_t>(std::min(block_threads / (lanes * of_groups), kSharedBytes / bytes), 1,
                                                     std::min(kMostAlongZ, most)))};
}

class GpuDaForwardPlan final : public GpuPlan {
public:
    GpuDaForwardPlan(const DaForwardCall &call, const Variant &kernel)
        : a_(call.inputs), output_(call.output), kernel_(kernel), knobs_(host_knobs<DaForwardGpuHostKnobs>(kernel)) {}

private:
    bool is_nothing() const override { return output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { fill_zero(output_); }

    void run_in_memory() override {
        const int64_t count = batches(a_);
        for (int64_t first = 0; first < a_.B; first += count) {
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, std::min(count, a_.B - first)); };
            Samples s(a_, part(a_.sample_locations), part(a_.weights));
            DeviceTensor maps(part(a_.feature_maps), Elements::kWords), output(part(output_), Elements::kWords, true);
            const int64_t lanes = output.extent(0) / kLaneWords, maps_bytes = a_.N * a_.S * 20;
            Tiles tile = tiles(kernel_.name, knobs_.block_threads, lanes, a_.G, 4 * a_.N * a_.S * kTapBytes + maps_bytes,
                               lanes * 32, a_.A);
            int32_t key_step = maps.flatten(2, kernel_);
            run_gpu_kernel(kernel_, s.with({maps.get(), &key_step, &tile.items, &tile.groups, output.get()}), {&output});
        }
        set_last_variant(kernel_.name);
    }

    DaInputs a_;
    Tensor output_;
    const Variant &kernel_;
    const DaForwardGpuHostKnobs &knobs_;
};

class GpuDaBackwardPlan final : public GpuPlan {
public:
    GpuDaBackwardPlan(const DaBackwardCall &call, const Variant &samples_kernel)
        : call_(call),
          a_(call_.inputs),
          samples_kernel_(samples_kernel),
          value_kernel_(choose_variant("da_backward_value", a_.feature_maps.dtype)) {}

private:
    static bool is_wanted(const std::optional<Tensor> &gradient) { return gradient && !gradient->empty(); }
    bool of_samples() const { return is_wanted(call_.grad_locations) || is_wanted(call_.grad_weights); }
    bool is_nothing() const override {
        return (!of_samples() && !is_wanted(call_.grad_feature_maps)) || call_.grad_output.empty() || a_.is_empty();
    }
    void clear_outputs() const override {
        clear_gradients({&call_.grad_feature_maps, &call_.grad_locations, &call_.grad_weights});
    }

    void run_in_memory() override {
        const int64_t count = batches(a_);
        for (int64_t first = 0; first < a_.B; first += count) {
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, std::min(count, a_.B - first)); };
            Samples s(a_, part(a_.sample_locations), part(a_.weights));
            if (of_samples()) {
                const auto &knobs = host_knobs<DaBackwardSamplesGpuHostKnobs>(samples_kernel_);
                DeviceTensor maps(part(a_.feature_maps), Elements::kWords), rows(part(call_.grad_output), Elements::kWords);
                const Tensor by = part(a_.weights);
                std::vector<unsigned char> unwanted(is_wanted(call_.grad_weights) ? 0 : by.elements() * by.element_bytes());
                DeviceTensor weights(
                    is_wanted(call_.grad_weights) ? part(*call_.grad_weights) : dense_like(by, unwanted.data()),
                    Elements::kNumbers, true);
                // Pairs in float32.
                std::vector<unsigned char> memory(by.elements() * 8);
                Tensor pairs = dense_like(by, memory.data());
                pairs.dtype = {kDLUInt, 64, 1};
                DeviceTensor shares(pairs, Elements::kBits, true);
                const int64_t lanes = rows.extent(0) / kLaneWords, maps_bytes = a_.N * a_.S * 20;
                Tiles tile = tiles(samples_kernel_.name, knobs.block_threads, lanes, a_.G, a_.S * 16 + maps_bytes,
                                   (lanes + 1) * a_.S * 16, a_.N);
                int32_t key_step = maps.flatten(2, samples_kernel_);
                run_gpu_kernel(
                    samples_kernel_,
                    s.with({maps.get(), rows.get(), &key_step, &tile.items, &tile.groups, weights.get(), shares.get()}),
                    {&weights});
                if (is_wanted(call_.grad_locations)) {
                    DeviceTensor locations(part(*call_.grad_locations), Elements::kPairs, true);
                    run_gpu_kernel(*companion(samples_kernel_, "da_backward_locations"), {shares.get(), locations.get()},
                                   {&locations});
                }
            }
            if (is_wanted(call_.grad_feature_maps)) {
                const auto &knobs = host_knobs<DaBackwardValueGpuHostKnobs>(value_kernel_);
                DeviceTensor rows(part(call_.grad_output), Elements::kNumbers);
                Tiles tile =
                    tiles(value_kernel_.name, knobs.block_threads, 8, a_.G, 4 * a_.N * a_.S * (kTapBytes + 20), 0, a_.A);
                scatter(value_kernel_, part(*call_.grad_feature_maps), [&](DeviceTensor &sums) {
                    return s.with({rows.get(), &tile.items, &tile.groups, sums.get()});
                });
            }
        }
        set_last_variant((is_wanted(call_.grad_feature_maps) ? value_kernel_ : samples_kernel_).name);
    }

    DaBackwardCall call_;
    const DaInputs &a_;
    const Variant &samples_kernel_, &value_kernel_;
};

}  // namespace

std::unique_ptr<Plan> gpu_plan(const DaForwardCall &call, const Variant &kernel) {
    return std::make_unique<GpuDaForwardPlan>(call, kernel);
}

std::unique_ptr<Plan> gpu_plan(const DaBackwardCall &call, const Variant &samples_kernel) {
    return std::make_unique<GpuDaBackwardPlan>(call, samples_kernel);
}

}  // namespace deformkit
