// Deformable aggregation on GPUs: which kernels run, on what.

#include <algorithm>

#include "runtime/dispatch/dispatch.h"
#include "runtime/gpu/operators.h"
#include "runtime/interface/error.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"
#include "schedules/da_gpu_knobs.h"

namespace deformkit {

namespace {

// Bytes of a block's own memory, as docs/gpu.md says.
constexpr int64_t kTapBytes = 32, kMapBytes = 20, kPointsAtOnce = 4, kSumsInOrder = 32 * 8 * 32 * 4;

/// What all kernels of a call read.
class Samples {
public:
    Samples(GpuCall &gpu, const DaInputs &a)
        : gpu_(gpu),
          a_(a),
          shapes_(gpu.input(a.spatial_shape)),
          starts_(gpu.input(a.scale_start_index)),
          locations_(gpu.input(a.sample_locations)),
          weights_(gpu.input(a.weights)) {}

    Arguments arguments(const Variant &kernel) const {
        Arguments arguments(gpu_.queue(), kernel);
        arguments.add(as_index_words(shapes_)).add(as_index_words(starts_)).add(as_bits(locations_)).add(as_bits(weights_));
        arguments.add(a_.K);
        return arguments;
    }

private:
    GpuCall &gpu_;
    const DaInputs &a_;
    const Tensor &shapes_, &starts_, &locations_, &weights_;
};

DaInputs part_of(const DaInputs &a, int64_t first, int64_t count) {
    DaInputs part = a;
    part.B = count;
    for (Tensor *tensor : {&part.feature_maps, &part.sample_locations, &part.weights}) {
        *tensor = slice(*tensor, 0, first, count);
    }
    return part;
}

/// Of a block of threads: groups, and items, which are anchors or cameras.
struct Tiles {
    int64_t items, groups;
};

void require_shared(const Variant &kernel, int64_t bytes) {
    if (bytes > kSharedBytes) {
        throw Failure(DEFORMKIT_NO_VARIANT,
                      std::string(kernel.name) + ": on a GPU, expected fewer cameras, scales and channels of a group");
    }
}

/// Each group takes `lanes` threads. Memory: `item_bytes` for an item, and `group_bytes` for each of its groups.
Tiles tiles(const Variant &kernel, int64_t block_threads, int64_t lanes, int64_t groups, int64_t item_bytes,
            int64_t group_bytes, int64_t items) {
    const int64_t by_threads = std::clamp<int64_t>(block_threads / lanes, 1, groups);
    const int64_t by_memory = group_bytes == 0 ? groups : (kSharedBytes - item_bytes) / group_bytes;
    const int64_t of_groups = std::clamp<int64_t>(by_memory, 1, by_threads), bytes = item_bytes + of_groups * group_bytes;
    require_shared(kernel, lanes > kMostThreads ? kSharedBytes + 1 : bytes);
    return {
        std::clamp<int64_t>(std::min(block_threads / (lanes * of_groups), kSharedBytes / bytes), 1, std::min(kMostTile, items)),
        of_groups};
}

void run_forward(const DaInputs &a, const Tensor &output, const Queue &queue) {
    GpuCall gpu(queue);
    const Variant &kernel = gpu.variant("da_forward", a.feature_maps.dtype);
    const auto &knobs = host_knobs<DaForwardGpuHostKnobs>(kernel);
    const Samples samples(gpu, a);
    const Tensor &maps = gpu.input_lanes(a.feature_maps), &target = gpu.output_lanes(output);
    const int64_t lanes = lanes_of(target), maps_bytes = a.N * a.S * (kPointsAtOnce * kTapBytes + kMapBytes);
    const Tiles tile = tiles(kernel, knobs.block_threads, lanes, a.G, maps_bytes, lanes * 32, a.A);
    gpu.open();
    const LaneCells cells(maps);
    samples.arguments(kernel)
        .add(cells.words, LaneCells::kAxis)
        .add(cells.step)
        .add(tile.items)
        .add(tile.groups)
        .add(as_words(target))
        .launch();
    gpu.close();
    set_last_variant(kernel.name);
}

/// nullptr: not wanted.
struct Gradients {
    const Tensor *maps, *locations, *weights;
};

class Backward {
public:
    Backward(const DaInputs &a, const Tensor &grad_output, const Gradients &wanted, const Queue &queue)
        : a_(a), wanted_(wanted), gpu_(queue), samples_(gpu_, a_), grad_output_(gpu_.input(grad_output)) {
        const bool of_samples = wanted_.locations != nullptr || wanted_.weights != nullptr;
        if (of_samples) {
            plan_samples(grad_output);
        }
        if (wanted_.maps != nullptr) {
            grad_maps_.emplace(gpu_, *wanted_.maps, "da_backward_value", "da_backward_value_in_order");
        }
        gpu_.open();
        if (of_samples) {
            run_samples();
        }
        if (grad_maps_) {
            run_value();
        }
        gpu_.close();
    }

private:
    /// The kernel writes the gradient of weights, and of locations a share for each weight, in float32.
    void plan_samples(const Tensor &grad_output) {
        maps_ = &gpu_.input_lanes(a_.feature_maps);
        grads_ = &gpu_.input_lanes(grad_output);
        const Tensor like = dense_like(a_.weights, nullptr);
        grad_weights_ = wanted_.weights != nullptr ? &gpu_.output(*wanted_.weights) : &gpu_.scratch(like);
        Tensor pairs = like;
        pairs.dtype = {kDLUInt, 64, 1};
        shares_ = &gpu_.scratch(pairs);
        if (wanted_.locations != nullptr) {
            const Tensor &gradient = *wanted_.locations;
            grad_locations_ =
                &gpu_.output(gradient, gpu_.addressable(gradient) && has_pairs(gradient), dense_like(gradient, nullptr));
        }
    }

    void run_samples() const {
        const Variant &kernel = gpu_.variant("da_backward_samples", a_.feature_maps.dtype);
        const auto &knobs = host_knobs<DaBackwardSamplesGpuHostKnobs>(kernel);
        const int64_t lanes = lanes_of(*grads_);
        const Tiles tile =
            tiles(kernel, knobs.block_threads, lanes, a_.G, a_.S * 16 + a_.N * a_.S * kMapBytes, (lanes + 1) * a_.S * 16, a_.N);
        const LaneCells maps(*maps_);
        samples_.arguments(kernel)
            .add(maps.words, LaneCells::kAxis)
            .add(as_words(*grads_))
            .add(maps.step)
            .add(tile.items)
            .add(tile.groups)
            .add(as_bits(*grad_weights_))
            .add(*shares_)
            .launch();
        if (grad_locations_ != nullptr) {
            const Variant &sum = gpu_.variant("da_backward_locations", a_.feature_maps.dtype);
            Arguments(gpu_.queue(), sum).add(*shares_).add(as_pairs(*grad_locations_)).launch();
        }
        set_last_variant(kernel.name);
    }

    void run_value() const {
        const Variant &kernel = grad_maps_->kernel();
        const int64_t point_bytes = a_.N * a_.S * (kTapBytes + kMapBytes);
        Arguments arguments = samples_.arguments(kernel);
        arguments.add(as_bits(grad_output_));
        if (grad_maps_->is_in_order()) {
            require_shared(kernel, kSumsInOrder + point_bytes);
        } else {
            const auto &knobs = host_knobs<DaBackwardValueGpuHostKnobs>(kernel);
            const Tiles tile = tiles(kernel, knobs.block_threads, kThreadsOfSum, a_.G, kPointsAtOnce * point_bytes, 0, a_.A);
            arguments.add(tile.items).add(tile.groups);
        }
        arguments.add(grad_maps_->target()).launch();
        grad_maps_->finish();
    }

    const DaInputs &a_;
    Gradients wanted_;
    GpuCall gpu_;
    Samples samples_;
    const Tensor &grad_output_;
    const Tensor *maps_ = nullptr, *grads_ = nullptr, *grad_weights_ = nullptr, *shares_ = nullptr, *grad_locations_ = nullptr;
    std::optional<MapGradient> grad_maps_;
};

}  // namespace

void run(const DaForwardCall &call, const Queue &queue) {
    const DaInputs &a = call.inputs;
    set_last_variant("");
    if (call.output.empty() || a.is_empty()) {
        GpuCall(queue).clear(call.output);
        return;
    }
    for_items({&a.feature_maps, &a.sample_locations, &a.weights, &call.output}, [&](int64_t first, int64_t count) {
        const DaInputs items = part_of(a, first, count);
        const Tensor output = slice(call.output, 0, first, count);
        for_channels(output, [&](int64_t channel, int64_t channels) {
            DaInputs part = items;
            part.D = channels;
            part.feature_maps = slice(items.feature_maps, 3, channel, channels);
            run_forward(part, slice(output, 3, channel, channels), queue);
        });
    });
}

void run(const DaBackwardCall &call, const Queue &queue) {
    const DaInputs &a = call.inputs;
    const Gradients wanted = {wanted_of(call.grad_feature_maps), wanted_of(call.grad_locations), wanted_of(call.grad_weights)};
    set_last_variant("");
    if (wanted.maps == nullptr && wanted.locations == nullptr && wanted.weights == nullptr) {
        return;
    }
    if (call.grad_output.empty() || a.is_empty()) {
        for (const Tensor *gradient : {wanted.maps, wanted.locations, wanted.weights}) {
            if (gradient != nullptr) {
                GpuCall(queue).clear(*gradient);
            }
        }
        return;
    }
    for_items(
        {&a.feature_maps, &a.sample_locations, &a.weights, &call.grad_output, wanted.maps, wanted.locations, wanted.weights},
        [&](int64_t first, int64_t count) {
            Tensor maps, locations, weights;
            const Gradients parts = {part_of(wanted.maps, first, count, maps),
                                     part_of(wanted.locations, first, count, locations),
                                     part_of(wanted.weights, first, count, weights)};
            const DaInputs inputs = part_of(a, first, count);
            Backward(inputs, slice(call.grad_output, 0, first, count), parts, queue);
        });
}

}  // namespace deformkit
