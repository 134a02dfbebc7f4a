// Multi-scale deformable attention on a GPU: what its kernels are handed.

#include <algorithm>

#include "runtime/gpu/plan.h"
#include "runtime/interface/gradients.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"
#include "schedules/msda_gpu_knobs.h"

namespace deformkit {

namespace {

/// What every kernel reads.
struct Samples {
    Samples(const MsdaInputs &a, const Tensor &locations, const Tensor &weights)
        : starts(a.level_start_index, a.first_key),
          spatial_shapes(a.spatial_shapes, Elements::kIndices),
          level_start_index(starts.of(a.level_start_index), Elements::kIndices),
          locations(locations, Elements::kNumbers),
          weights(weights, Elements::kNumbers),
          num_keys(static_cast<int32_t>(a.K)) {}

    ShiftedStarts starts;
    DeviceTensor spatial_shapes, level_start_index, locations, weights;
    int32_t num_keys;
};

class GpuMsdaForwardPlan final : public GpuPlan {
public:
    GpuMsdaForwardPlan(const MsdaForwardCall &call, const Variant &kernel)
        : a_(call.inputs), output_(call.output), kernel_(kernel), knobs_(host_knobs<MsdaForwardGpuHostKnobs>(kernel)) {}

private:
    bool is_nothing() const override { return output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { fill_zero(output_); }

    void run_in_memory() override {
        const int64_t count = gpu_batches(a_, output_);
        for (int64_t first = 0; first < a_.B; first += count) {
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, std::min(count, a_.B - first)); };
            Samples s(a_, part(a_.sampling_locations), part(a_.attention_weights));
            DeviceTensor value(part(a_.value), Elements::kWords), output(part(output_), Elements::kWords, true);
            int32_t key_step = value.flatten(2, kernel_), tile = forward_tile(output.extent(0) / kLaneWords);
            run_gpu_kernel(kernel_,
                           {s.spatial_shapes.get(), s.level_start_index.get(), s.locations.get(), &s.num_keys, &tile,
                            s.weights.get(), value.get(), &key_step, output.get()},
                           {&output});
        }
        set_last_variant(kernel_.name);
    }

    /// Taps of 16 samples and one more, and the sums.
    int32_t forward_tile(int64_t lanes) const {
        return query_tile(knobs_.block_threads, lanes, 17 * 32 + lanes * 16 * (a_.value.dtype.bits == 16 ? 2 : 1));
    }

    MsdaInputs a_;
    Tensor output_;
    const Variant &kernel_;
    const MsdaForwardGpuHostKnobs &knobs_;
};

class GpuMsdaBackwardPlan final : public GpuPlan {
public:
    GpuMsdaBackwardPlan(const MsdaBackwardCall &call, const Variant &samples_kernel)
        : call_(call),
          a_(call_.inputs),
          samples_kernel_(samples_kernel),
          value_kernel_(choose_variant("msda_backward_value", a_.value.dtype)),
          in_order_(in_place_of(value_kernel_, "msda_backward_value_in_order", false)) {}

private:
    bool of_samples() const { return is_wanted(call_.grad_locations) || is_wanted(call_.grad_weights); }
    static bool is_wanted(const std::optional<Tensor> &gradient) { return gradient && !gradient->empty(); }
    bool is_nothing() const override {
        return (!of_samples() && !is_wanted(call_.grad_value)) || call_.grad_output.empty() || a_.is_empty();
    }
    void clear_outputs() const override { clear_gradients({&call_.grad_value, &call_.grad_locations, &call_.grad_weights}); }

    void run_in_memory() override {
        const int64_t count = gpu_batches(a_, call_.grad_output);
        for (int64_t first = 0; first < a_.B; first += count) {
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, std::min(count, a_.B - first)); };
            Samples s(a_, part(a_.sampling_locations), part(a_.attention_weights));
            if (of_samples()) {
                DeviceTensor value(part(a_.value), Elements::kWords), rows(part(call_.grad_output), Elements::kWords);
                std::vector<unsigned char> unwanted;
                const auto target = [&](const std::optional<Tensor> &gradient, const Tensor &like) {
                    if (is_wanted(gradient)) {
                        return part(*gradient);
                    }
                    unwanted.resize(like.elements() * like.element_bytes());
                    return dense_like(part(like), unwanted.data());
                };
                DeviceTensor locations(target(call_.grad_locations, a_.sampling_locations), Elements::kPairs, true);
                DeviceTensor weights(target(call_.grad_weights, a_.attention_weights), Elements::kNumbers, true);
                locations.join(0);
                weights.join(0);
                const auto &knobs = host_knobs<MsdaBackwardSamplesGpuHostKnobs>(samples_kernel_);
                int32_t key_step = value.flatten(2, samples_kernel_),
                        lanes = dot_lanes(rows.extent(0) / kLaneWords, knobs.most_lanes);
                int32_t tile = query_tile(knobs.block_threads, lanes, (lanes + 2) * 8 * 16);
                run_gpu_kernel(samples_kernel_,
                               {s.spatial_shapes.get(), s.level_start_index.get(), s.locations.get(), &s.num_keys, &tile,
                                s.weights.get(), value.get(), rows.get(), &key_step, &lanes, locations.get(), weights.get()},
                               {&locations, &weights});
            }
            if (is_wanted(call_.grad_value)) {
                const auto &knobs = host_knobs<MsdaBackwardValueGpuHostKnobs>(value_kernel_);
                DeviceTensor rows(part(call_.grad_output), Elements::kNumbers);
                int32_t tile = query_tile(knobs.block_threads, 8, 17 * 32);
                if (in_order_ != nullptr) {
                    DeviceTensor gradient(part(*call_.grad_value), Elements::kNumbers, true);
                    run_gpu_kernel(*in_order_,
                                   {s.spatial_shapes.get(), s.level_start_index.get(), s.locations.get(), &s.num_keys, &tile,
                                    s.weights.get(), rows.get(), gradient.get()},
                                   {&gradient});
                    continue;
                }
                scatter(value_kernel_, part(*call_.grad_value), [&](DeviceTensor &sums) -> std::vector<void *> {
                    return {s.spatial_shapes.get(),
                            s.level_start_index.get(),
                            s.locations.get(),
                            &s.num_keys,
                            &tile,
                            s.weights.get(),
                            rows.get(),
                            sums.get()};
                });
            }
        }
        set_last_variant((!is_wanted(call_.grad_value) ? samples_kernel_
                          : in_order_ != nullptr       ? *in_order_
                                                       : value_kernel_)
                             .name);
    }

    MsdaBackwardCall call_;
    const MsdaInputs &a_;
    const Variant &samples_kernel_, &value_kernel_, *in_order_;
};

}  // namespace

std::unique_ptr<Plan> gpu_plan(const MsdaForwardCall &call, const Variant &kernel) {
    return std::make_unique<GpuMsdaForwardPlan>(call, kernel);
}

std::unique_ptr<Plan> gpu_plan(const MsdaBackwardCall &call, const Variant &samples_kernel) {
    return std::make_unique<GpuMsdaBackwardPlan>(call, samples_kernel);
}

}  // namespace deformkit
