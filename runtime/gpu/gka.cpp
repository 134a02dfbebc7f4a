// Geometric kernel attention on a GPU: what its kernels are handed.

#include <algorithm>

#include "generators/shared/contract.h"
#include "runtime/gpu/plan.h"
#include "runtime/interface/gradients.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"
#include "schedules/gka_gpu_knobs.h"

namespace deformkit {

namespace {

/// What every kernel reads: locations of any type of number as bits of one that kernels know.
struct Samples {
    Samples(const MsdaInputs &a, const Tensor &given)
        : starts(a.level_start_index, a.first_key),
          spatial_shapes(a.spatial_shapes, Elements::kIndices),
          level_start_index(starts.of(a.level_start_index), Elements::kIndices),
          kind(given.dtype.bits != 32       ? kMarkedIntLocation
               : given.dtype.code == kDLInt ? kIntLocation
                                            : kFloatLocation),
          locations(kind == kMarkedIntLocation ? converted(given) : given, Elements::kBits),
          num_keys(static_cast<int32_t>(a.K)) {}

    ShiftedStarts starts;
    DeviceTensor spatial_shapes, level_start_index;
    int32_t kind;
    std::vector<unsigned char> cells;
    DeviceTensor locations;
    int32_t num_keys;

private:
    Tensor converted(const Tensor &given) {
        cells.resize(given.elements() * sizeof(int32_t));
        Tensor result = dense_like(given, cells.data());
        result.dtype = {kDLInt, 32, 1};
        DeviceTensor input(given, given.dtype.code == kDLInt || given.dtype.bits == 64 ? Elements::kBits : Elements::kNumbers);
        DeviceTensor output(result, Elements::kBits, true);
        run_gpu_kernel(choose_variant("gka_cells", given.dtype), {input.get(), output.get()}, {&output});
        return result;
    }
};

class GpuGkaForwardPlan final : public GpuPlan {
public:
    GpuGkaForwardPlan(const GkaForwardCall &call, const Variant &kernel)
        : a_(call.inputs), output_(call.output), kernel_(kernel), knobs_(host_knobs<GkaForwardGpuHostKnobs>(kernel)) {}

private:
    bool is_nothing() const override { return output_.empty() || a_.is_empty(); }
    void clear_outputs() const override { fill_zero(output_); }

    void run_in_memory() override {
        const int64_t count = gpu_batches(a_, output_);
        for (int64_t first = 0; first < a_.B; first += count) {
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, std::min(count, a_.B - first)); };
            Samples s(a_, part(a_.sampling_locations));
            DeviceTensor weights(part(a_.attention_weights), Elements::kNumbers), value(part(a_.value), Elements::kWords);
            DeviceTensor output(part(output_), Elements::kWords, true);
            const int32_t lanes = output.extent(0) / kLaneWords;
            int32_t key_step = value.flatten(2, kernel_);
            // Taps of 16 samples and one more, and the sums.
            int32_t tile = query_tile(knobs_.block_threads, lanes, 17 * 8 + lanes * 32);
            run_gpu_kernel(kernel_,
                           {s.spatial_shapes.get(), s.level_start_index.get(), s.locations.get(), &s.num_keys, &tile, &s.kind,
                            weights.get(), value.get(), &key_step, output.get()},
                           {&output});
        }
        set_last_variant(kernel_.name);
    }

    MsdaInputs a_;
    Tensor output_;
    const Variant &kernel_;
    const GkaForwardGpuHostKnobs &knobs_;
};

class GpuGkaBackwardPlan final : public GpuPlan {
public:
    GpuGkaBackwardPlan(const GkaBackwardCall &call, const Variant &samples_kernel)
        : call_(call),
          a_(call_.inputs),
          samples_kernel_(samples_kernel),
          value_kernel_(choose_variant("gka_backward_value", a_.value.dtype)) {}

private:
    static bool is_wanted(const std::optional<Tensor> &gradient) { return gradient && !gradient->empty(); }
    bool is_nothing() const override {
        return (!is_wanted(call_.grad_weights) && !is_wanted(call_.grad_value)) || call_.grad_output.empty() || a_.is_empty();
    }
    void clear_outputs() const override { clear_gradients({&call_.grad_value, &call_.grad_weights}); }

    void run_in_memory() override {
        const int64_t count = gpu_batches(a_, call_.grad_output);
        for (int64_t first = 0; first < a_.B; first += count) {
            const auto part = [&](const Tensor &tensor) { return slice(tensor, 0, first, std::min(count, a_.B - first)); };
            Samples s(a_, part(a_.sampling_locations));
            if (is_wanted(call_.grad_weights)) {
                const auto &knobs = host_knobs<GkaBackwardSamplesGpuHostKnobs>(samples_kernel_);
                DeviceTensor value(part(a_.value), Elements::kWords), rows(part(call_.grad_output), Elements::kWords);
                DeviceTensor weights(part(*call_.grad_weights), Elements::kNumbers, true);
                weights.join(0);
                int32_t key_step = value.flatten(2, samples_kernel_),
                        lanes = dot_lanes(rows.extent(0) / kLaneWords, knobs.most_lanes);
                int32_t tile = query_tile(knobs.block_threads, lanes, (lanes + 2) * 16 * 4);
                run_gpu_kernel(samples_kernel_,
                               {s.spatial_shapes.get(), s.level_start_index.get(), s.locations.get(), &s.num_keys, &tile,
                                &s.kind, value.get(), rows.get(), &key_step, &lanes, weights.get()},
                               {&weights});
            }
            if (is_wanted(call_.grad_value)) {
                const auto &knobs = host_knobs<GkaBackwardValueGpuHostKnobs>(value_kernel_);
                DeviceTensor weights(part(a_.attention_weights), Elements::kNumbers);
                DeviceTensor rows(part(call_.grad_output), Elements::kNumbers);
                int32_t tile = query_tile(knobs.block_threads, 8, 17 * 8);
                scatter(value_kernel_, part(*call_.grad_value), [&](DeviceTensor &sums) -> std::vector<void *> {
                    return {s.spatial_shapes.get(),
                            s.level_start_index.get(),
                            s.locations.get(),
                            &s.num_keys,
                            &tile,
                            &s.kind,
                            weights.get(),
                            rows.get(),
                            sums.get()};
                });
            }
        }
        set_last_variant((is_wanted(call_.grad_value) ? value_kernel_ : samples_kernel_).name);
    }

    GkaBackwardCall call_;
    const MsdaInputs &a_;
    const Variant &samples_kernel_, &value_kernel_;
};

}  // namespace

std::unique_ptr<Plan> gpu_plan(const GkaForwardCall &call, const Variant &kernel) {
    return std::make_unique<GpuGkaForwardPlan>(call, kernel);
}

std::unique_ptr<Plan> gpu_plan(const GkaBackwardCall &call, const Variant &samples_kernel) {
    return std::make_unique<GpuGkaBackwardPlan>(call, samples_kernel);
}

}  // namespace deformkit
