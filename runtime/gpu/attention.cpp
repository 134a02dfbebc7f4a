// Multi-scale deformable attention and geometric kernel attention, which take the same arguments, on GPUs: which kernels run, on
// what.

#include <algorithm>

#include "generators/shared/contract.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/gpu/operators.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"
#include "schedules/gka_gpu_knobs.h"
#include "schedules/msda_gpu_knobs.h"

namespace deformkit {

namespace {

// The bytes of a block's own memory that kernels take for each query, as docs/gpu.md says: 16 samples' taps and one more, and sums.
struct Msda {
    static constexpr int64_t kTapBytes = 17 * 32, kDotBytes = 8 * 16;
    static int64_t sum_bytes(const Tensor &tensor) { return lanes_of(tensor) * (tensor.element_bytes() == 2 ? 32 : 16); }
    static constexpr char kForward[] = "msda_forward", kSamples[] = "msda_backward_samples", kValue[] = "msda_backward_value";
    static constexpr bool kInCells = false;
    static constexpr char kInOrder[] = "msda_backward_value_in_order";
    using ForwardKnobs = MsdaForwardGpuHostKnobs;
    using SamplesKnobs = MsdaBackwardSamplesGpuHostKnobs;
    using ValueKnobs = MsdaBackwardValueGpuHostKnobs;
};

struct Gka {
    static constexpr int64_t kTapBytes = 17 * 8, kDotBytes = 16 * 4;
    static int64_t sum_bytes(const Tensor &tensor) { return lanes_of(tensor) * 32; }
    static constexpr char kForward[] = "gka_forward", kSamples[] = "gka_backward_samples", kValue[] = "gka_backward_value";
    static constexpr bool kInCells = true;
    static constexpr char kInOrder[] = "gka_backward_value_in_order";
    using ForwardKnobs = GkaForwardGpuHostKnobs;
    using SamplesKnobs = GkaBackwardSamplesGpuHostKnobs;
    using ValueKnobs = GkaBackwardValueGpuHostKnobs;
};

Tensor as_int32(Tensor tensor) {
    tensor.dtype = {kDLInt, 32, 1};
    return tensor;
}

/// What all kernels of a call read.
template <typename Operator>
class Samples {
public:
    Samples(GpuCall &gpu, const MsdaInputs &a)
        : gpu_(gpu),
          a_(a),
          shapes_(gpu.input(a.spatial_shapes)),
          starts_(gpu.input(a.level_start_index)),
          locations_(gpu.input(a.sampling_locations)),
          weights_(gpu.input(a.attention_weights)) {
        if (Operator::kInCells && locations_.dtype.bits != 32) {
            cells_ = &gpu.scratch(as_int32(dense_like(locations_, nullptr)));
        }
    }

    /// When the memory is there.
    void prepare() const {
        if (cells_ != nullptr) {
            const Variant &kernel = gpu_.variant("gka_cells", locations_.dtype);
            Arguments(gpu_.queue(), kernel).add(as_bits(locations_)).add(*cells_).launch();
        }
    }

    Arguments arguments(const Variant &kernel, int64_t query_tile) const {
        Arguments arguments(gpu_.queue(), kernel);
        arguments.add(as_index_words(shapes_)).add(as_index_words(starts_));
        if constexpr (Operator::kInCells) {
            const int64_t kind = cells_ != nullptr                 ? kMarkedIntLocation
                                 : locations_.dtype.code == kDLInt ? kIntLocation
                                                                   : kFloatLocation;
            arguments.add(cells_ != nullptr ? *cells_ : as_int32(locations_)).add(a_.K).add(query_tile).add(kind);
        } else {
            arguments.add(as_bits(locations_)).add(a_.K).add(query_tile);
        }
        return arguments;
    }
    Tensor weights() const { return as_bits(weights_); }

private:
    GpuCall &gpu_;
    const MsdaInputs &a_;
    const Tensor &shapes_, &starts_, &locations_, &weights_;
    const Tensor *cells_ = nullptr;  // locations of other types than kernels read
};

MsdaInputs part_of(const MsdaInputs &a, int64_t first, int64_t count) {
    MsdaInputs part = a;
    part.B = count;
    for (Tensor *tensor : {&part.value, &part.sampling_locations, &part.attention_weights}) {
        *tensor = slice(*tensor, 0, first, count);
    }
    return part;
}

template <typename Operator>
void run_forward(const MsdaInputs &a, const Tensor &output, const Queue &queue) {
    GpuCall gpu(queue);
    const Variant &kernel = gpu.variant(Operator::kForward, a.value.dtype);
    const auto &knobs = host_knobs<typename Operator::ForwardKnobs>(kernel);
    const Samples<Operator> samples(gpu, a);
    const Tensor &value = gpu.input_lanes(a.value), &target = gpu.output_lanes(output);
    gpu.open();
    samples.prepare();
    const LaneCells cells(value);
    samples
        .arguments(kernel, query_tile(knobs.block_threads, lanes_of(target), Operator::kTapBytes + Operator::sum_bytes(target)))
        .add(samples.weights())
        .add(cells.words, LaneCells::kAxis)
        .add(cells.step)
        .add(as_words(target))
        .launch();
    gpu.close();
    set_last_variant(kernel.name);
}

/// nullptr: not wanted.
struct Gradients {
    const Tensor *value, *locations, *weights;
};

template <typename Operator>
class Backward {
public:
    Backward(const MsdaInputs &a, const Tensor &grad_output, const Gradients &wanted, const Queue &queue)
        : a_(a), wanted_(wanted), gpu_(queue), samples_(gpu_, a_), grad_output_(gpu_.input(grad_output)) {
        const bool of_samples = wanted_.locations != nullptr || wanted_.weights != nullptr;
        if (of_samples) {
            plan_samples(grad_output);
        }
        if (wanted_.value != nullptr) {
            grad_value_.emplace(gpu_, *wanted_.value, Operator::kValue, Operator::kInOrder);
        }
        gpu_.open();
        samples_.prepare();
        if (of_samples) {
            run_samples();
        }
        if (grad_value_) {
            run_value();
        }
        gpu_.close();
    }

private:
    /// Kernels write the gradients of both: of what is not wanted, nobody reads it. Levels and points are one axis.
    const Tensor &target(const Tensor *wanted, const Tensor &like, bool in_place) {
        const Tensor copy = dense_like(like, nullptr);
        return wanted == nullptr
                   ? gpu_.scratch(copy)
                   : gpu_.output(*wanted, in_place && gpu_.addressable(*wanted) && wanted->can_join_axes(3), copy);
    }

    void plan_samples(const Tensor &grad_output) {
        value_ = &gpu_.input_lanes(a_.value);
        grads_ = &gpu_.input_lanes(grad_output);
        grad_weights_ = &target(wanted_.weights, a_.attention_weights, true);
        if constexpr (!Operator::kInCells) {
            grad_locations_ = &target(wanted_.locations, a_.sampling_locations,
                                      wanted_.locations != nullptr && has_pairs(*wanted_.locations));
        }
    }

    void run_samples() const {
        const Variant &kernel = gpu_.variant(Operator::kSamples, a_.value.dtype);
        const auto &knobs = host_knobs<typename Operator::SamplesKnobs>(kernel);
        const int64_t lanes = divisor_of(lanes_of(*grads_), knobs.most_lanes);
        const LaneCells value(*value_);
        Arguments arguments =
            samples_.arguments(kernel, query_tile(knobs.block_threads, lanes, (lanes + 2) * Operator::kDotBytes));
        if constexpr (!Operator::kInCells) {
            arguments.add(samples_.weights());
        }
        arguments.add(value.words, LaneCells::kAxis).add(as_words(*grads_)).add(value.step).add(lanes);
        if constexpr (!Operator::kInCells) {
            arguments.add(as_pairs(*grad_locations_).join_axes(3));
        }
        arguments.add(as_bits(grad_weights_->join_axes(3))).launch();
        set_last_variant(kernel.name);
    }

    void run_value() const {
        const auto &knobs = host_knobs<typename Operator::ValueKnobs>(grad_value_->row());
        samples_.arguments(grad_value_->kernel(), query_tile(knobs.block_threads, kThreadsOfSum, Operator::kTapBytes))
            .add(samples_.weights())
            .add(as_bits(grad_output_))
            .add(grad_value_->target())
            .launch();
        grad_value_->finish();
    }

    const MsdaInputs &a_;
    Gradients wanted_;
    GpuCall gpu_;
    Samples<Operator> samples_;
    const Tensor &grad_output_;
    const Tensor *value_ = nullptr, *grads_ = nullptr, *grad_locations_ = nullptr, *grad_weights_ = nullptr;
    std::optional<MapGradient> grad_value_;
};

template <typename Operator>
void run_forward(const MsdaForwardCall &call, const Queue &queue) {
    const MsdaInputs &a = call.inputs;
    set_last_variant("");
    if (call.output.empty() || a.is_empty()) {
        GpuCall(queue).clear(call.output);
        return;
    }
    for_items({&a.value, &a.sampling_locations, &a.attention_weights, &call.output}, [&](int64_t first, int64_t count) {
        const MsdaInputs items = part_of(a, first, count);
        const Tensor output = slice(call.output, 0, first, count);
        for_channels(output, [&](int64_t channel, int64_t channels) {
            MsdaInputs part = items;
            part.D = channels;
            part.value = slice(items.value, 3, channel, channels);
            run_forward<Operator>(part, slice(output, 3, channel, channels), queue);
        });
    });
}

template <typename Operator>
void run_backward(const MsdaInputs &a, const Tensor &grad_output, const Gradients &wanted, const Queue &queue) {
    set_last_variant("");
    if (grad_output.empty() || a.is_empty()) {
        for (const Tensor *gradient : {wanted.value, wanted.locations, wanted.weights}) {
            if (gradient != nullptr) {
                GpuCall(queue).clear(*gradient);
            }
        }
        return;
    }
    if (wanted.value == nullptr && wanted.locations == nullptr && wanted.weights == nullptr) {
        return;
    }
    for_items(
        {&a.value, &a.sampling_locations, &a.attention_weights, &grad_output, wanted.value, wanted.locations, wanted.weights},
        [&](int64_t first, int64_t count) {
            Tensor value, locations, weights;
            const Gradients parts = {part_of(wanted.value, first, count, value),
                                     part_of(wanted.locations, first, count, locations),
                                     part_of(wanted.weights, first, count, weights)};
            const MsdaInputs inputs = part_of(a, first, count);
            Backward<Operator>(inputs, slice(grad_output, 0, first, count), parts, queue);
        });
}

}  // namespace

void run(const MsdaForwardCall &call, const Queue &queue) {
    run_forward<Msda>(call, queue);
}

void run(const GkaForwardCall &call, const Queue &queue) {
    run_forward<Gka>(call, queue);
}

void run(const MsdaBackwardCall &call, const Queue &queue) {
    const Gradients wanted = {wanted_of(call.grad_value), wanted_of(call.grad_locations), wanted_of(call.grad_weights)};
    run_backward<Msda>(call.inputs, call.grad_output, wanted, queue);
}

void run(const GkaBackwardCall &call, const Queue &queue) {
    const Gradients wanted = {wanted_of(call.grad_value), nullptr, wanted_of(call.grad_weights)};
    run_backward<Gka>(call.inputs, call.grad_output, wanted, queue);
}

}  // namespace deformkit
