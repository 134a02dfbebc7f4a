#include "runtime/gpu/run.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "runtime/dispatch/dispatch.h"
#include "runtime/gpu/operators.h"
#include "runtime/interface/error.h"
#include "runtime/system/memory.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

namespace {

thread_local bool wants_deterministic = false;
thread_local std::optional<Queue> last_queue;

struct Operands {
    std::vector<Tensor *> inputs, outputs;
};

std::vector<Tensor *> inputs_of(MsdaInputs &a) {
    return {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights};
}

std::vector<Tensor *> inputs_of(DaInputs &a) {
    return {&a.feature_maps, &a.spatial_shape, &a.scale_start_index, &a.sample_locations, &a.weights};
}

template <typename Call>
Operands forward_operands(Call &call) {
    return {inputs_of(call.inputs), {&call.output}};
}

template <typename Call>
Operands backward_operands(Call &call, std::initializer_list<std::optional<Tensor> *> gradients) {
    Operands operands = {inputs_of(call.inputs), {}};
    operands.inputs.push_back(&call.grad_output);
    for (std::optional<Tensor> *gradient : gradients) {
        if (*gradient) {
            operands.outputs.push_back(&**gradient);
        }
    }
    return operands;
}

Operands operands_of(MsdaForwardCall &call) {
    return forward_operands(call);
}
Operands operands_of(DaForwardCall &call) {
    return forward_operands(call);
}
Operands operands_of(MsdaBackwardCall &call) {
    return backward_operands(call, {&call.grad_value, &call.grad_locations, &call.grad_weights});
}
Operands operands_of(DaBackwardCall &call) {
    return backward_operands(call, {&call.grad_feature_maps, &call.grad_locations, &call.grad_weights});
}
Operands operands_of(GkaBackwardCall &call) {
    return backward_operands(call, {&call.grad_value, &call.grad_weights});
}

/// What only the device could tell otherwise, when it is too late.
void require_in_memory(const Driver &driver, const Tensor &tensor) {
    const auto [begin, end] = tensor.byte_range();
    if (begin == end) {
        return;
    }
    const auto fail = [&](const std::string &expected) {
        throw Failure(DEFORMKIT_INVALID_VALUE, std::string(tensor.name) + ": expected " + expected);
    };
    if (reinterpret_cast<uint64_t>(tensor.data) % tensor.element_bytes() != 0) {
        fail("an address that is a multiple of " + std::to_string(tensor.element_bytes()) + " bytes");
    }
    if (tensor.object != nullptr) {
        const size_t bytes = driver.object_bytes({tensor.object, 0});
        const auto first = reinterpret_cast<intptr_t>(begin), last = reinterpret_cast<intptr_t>(end);
        if (first < 0 || last > static_cast<intptr_t>(bytes)) {
            fail("elements within the " + std::to_string(bytes) + " bytes of its cl_mem, got bytes " + std::to_string(first) +
                 " to " + std::to_string(last));
        }
    }
}

/// A tensor in host memory and its copy, both dense.
class HostCopy {
public:
    HostCopy(const Tensor &tensor, size_t begin, const DeviceAddress &block)
        : tensor_(tensor), at_(block + begin), dense_(dense_like(tensor, tensor.data)) {
        if (!is_dense(tensor)) {
            packed_ = Scratch(bytes());
            dense_.data = packed_.data();
        }
    }
    size_t bytes() const { return dense_.elements() * dense_.element_bytes(); }

    void send(const Driver &driver, const Queue &queue) const {
        if (dense_.data != tensor_.data) {
            copy_elements(tensor_, dense_);
        }
        driver.copy_to_device(queue, dense_.data, at_, bytes());
    }
    void fetch(const Driver &driver, const Queue &queue) const {
        driver.copy_to_host(queue, at_, dense_.data, bytes());
        if (dense_.data != tensor_.data) {
            copy_elements(dense_, tensor_);
        }
    }
    Tensor on_device(const Queue &queue) const {
        Tensor tensor = dense_;
        tensor.device = queue.device;
        tensor.object = at_.object;
        tensor.data = reinterpret_cast<unsigned char *>(at_.offset);
        return tensor;
    }

private:
    Tensor tensor_;
    DeviceAddress at_;
    Tensor dense_;
    Scratch packed_;
};

template <typename Call>
void run_on_copies(const Call &call, const Target &target) {
    if (!device_answers(target.device_type)) {
        throw Failure(DEFORMKIT_NO_VARIANT, std::string(target.name) + ": no such device answers");
    }
    const Driver &driver = driver_of(target.device_type);
    const Queue queue = driver.own_queue();
    last_queue = queue;
    Call on_device = call;
    const Operands operands = operands_of(on_device);
    // Each at a place where a buffer may begin, on any device.
    constexpr size_t kSteps = 512;
    std::vector<size_t> begins;
    size_t bytes = 0;
    for (const auto *tensors : {&operands.inputs, &operands.outputs}) {
        for (const Tensor *tensor : *tensors) {
            begins.push_back(bytes);
            bytes += (tensor->elements() * tensor->element_bytes() + kSteps - 1) / kSteps * kSteps;
        }
    }
    const CallBlock block(driver, queue, std::max(bytes, kSteps), CallBlock::Use::kTensors);
    std::vector<HostCopy> inputs, outputs;
    size_t i = 0;
    for (Tensor *tensor : operands.inputs) {
        inputs.emplace_back(*tensor, begins[i++], block.begin());
        if (inputs.back().bytes() > 0) {
            inputs.back().send(driver, queue);
        }
        *tensor = inputs.back().on_device(queue);
    }
    for (Tensor *tensor : operands.outputs) {
        outputs.emplace_back(*tensor, begins[i++], block.begin());
        *tensor = outputs.back().on_device(queue);
    }
    run(on_device, queue);
    for (const HostCopy &output : outputs) {
        if (output.bytes() > 0) {
            output.fetch(driver, queue);
        }
    }
    driver.wait(queue);  // what was packed goes away
}

template <typename Call>
void run_anywhere(const Call &call) {
    Call own = call;
    const Operands operands = operands_of(own);
    const Tensor &first = *operands.inputs.front();
    if (first.on_host()) {
        const Target *target = forced_gpu();
        if (target == nullptr) {
            throw Failure(DEFORMKIT_NO_VARIANT, "another target was set while the call began");
        }
        run_on_copies(call, *target);
        return;
    }
    const Driver &driver = driver_of(first.device.device_type);
    const Queue queue = driver.queue_of(first.device, stream_of(first.device));
    last_queue = queue;
    for (const auto *tensors : {&operands.inputs, &operands.outputs}) {
        for (const Tensor *tensor : *tensors) {
            require_in_memory(driver, *tensor);
        }
    }
    run(call, queue);
}

/// Tensors of a call that touches a few bytes of a block of zeros, all at the same place.
class SmallTensors {
public:
    SmallTensors(const Queue &queue, const DeviceAddress &block) : queue_(queue), next_(block) {}

    Tensor make(const char *name, DLDataType dtype, std::initializer_list<int64_t> shape) {
        Tensor tensor;
        tensor.name = name;
        tensor.dtype = dtype;
        tensor.ndim = static_cast<int>(shape.size());
        std::copy(shape.begin(), shape.end(), tensor.shape.begin());
        tensor = dense_like(tensor, reinterpret_cast<unsigned char *>(next_.offset));
        tensor.device = queue_.device;
        tensor.object = next_.object;
        next_ = next_ + kStep;
        return tensor;
    }

    static constexpr size_t kStep = 512, kMost = 16;

private:
    Queue queue_;
    DeviceAddress next_;
};

constexpr DLDataType kIndexType = {kDLInt, 32, 1};

/// One batch item, query, level and point.
MsdaInputs small_msda(SmallTensors &tensors, DLDataType dtype, int64_t channels) {
    MsdaInputs a;
    a.value = tensors.make("value", dtype, {1, 1, 1, channels});
    a.spatial_shapes = tensors.make("spatial_shapes", kIndexType, {1, 2});
    a.level_start_index = tensors.make("level_start_index", kIndexType, {1});
    a.sampling_locations = tensors.make("sampling_locations", dtype, {1, 1, 1, 1, 1, 2});
    a.attention_weights = tensors.make("attention_weights", dtype, {1, 1, 1, 1, 1});
    a.B = a.K = a.M = a.Q = a.L = a.P = 1;
    a.D = channels;
    return a;
}

DaInputs small_da(SmallTensors &tensors, DLDataType dtype, int64_t channels) {
    DaInputs a;
    a.feature_maps = tensors.make("feature_maps", dtype, {1, 1, 1, channels});
    a.spatial_shape = tensors.make("spatial_shape", kIndexType, {1, 1, 2});
    a.scale_start_index = tensors.make("scale_start_index", kIndexType, {1, 1});
    a.sample_locations = tensors.make("sample_locations", dtype, {1, 1, 1, 1, 2});
    a.weights = tensors.make("weights", dtype, {1, 1, 1, 1, 1, 1});
    a.B = a.K = a.G = a.A = a.P = a.N = a.S = 1;
    a.D = channels;
    return a;
}

/// Where there is a kernel.
template <typename Call>
void warm_up(const Call &call, const Queue &queue) {
    try {
        run(call, queue);
    } catch (const Failure &failure) {
        if (failure.status() != DEFORMKIT_NO_VARIANT) {
            throw;
        }
    }
}

void warm_up(const Queue &queue, const DeviceAddress &block, DLDataType dtype, int64_t channels) {
    const auto all_of = [&](auto &&use) {
        SmallTensors tensors(queue, block);
        use(tensors);
    };
    const auto like = [](SmallTensors &tensors, const Tensor &of) {
        Tensor gradient = tensors.make(of.name, of.dtype, {});
        gradient.ndim = of.ndim;
        gradient.shape = of.shape;
        gradient.strides = of.strides;
        return gradient;
    };
    all_of([&](SmallTensors &tensors) {
        const MsdaInputs a = small_msda(tensors, dtype, channels);
        const Tensor output = tensors.make("output", dtype, {1, 1, 1, channels});
        GkaForwardCall call;
        call.inputs = a;
        call.output = output;
        warm_up(static_cast<const MsdaForwardCall &>(call), queue);
        warm_up(call, queue);
    });
    all_of([&](SmallTensors &tensors) {
        const MsdaInputs a = small_msda(tensors, dtype, channels);
        const Tensor gradient = tensors.make("grad_output", dtype, {1, 1, 1, channels});
        const Tensor value = like(tensors, a.value), locations = like(tensors, a.sampling_locations);
        const Tensor weights = like(tensors, a.attention_weights);
        warm_up(MsdaBackwardCall{a, gradient, value, locations, weights}, queue);
        warm_up(GkaBackwardCall{a, gradient, value, weights}, queue);
    });
    all_of([&](SmallTensors &tensors) {
        const DaInputs a = small_da(tensors, dtype, channels);
        warm_up(DaForwardCall{a, tensors.make("output", dtype, {1, 1, 1, channels})}, queue);
    });
    all_of([&](SmallTensors &tensors) {
        const DaInputs a = small_da(tensors, dtype, channels);
        const Tensor gradient = tensors.make("grad_output", dtype, {1, 1, 1, channels});
        const Tensor maps = like(tensors, a.feature_maps), locations = like(tensors, a.sample_locations);
        warm_up(DaBackwardCall{a, gradient, maps, locations, like(tensors, a.weights)}, queue);
    });
}

void warm_up(DLDevice device) {
    const Driver &driver = driver_of(device.device_type);
    const Queue queue = driver.queue_of(device, stream_of(device));
    constexpr size_t kBytes = SmallTensors::kStep * SmallTensors::kMost;
    const CallBlock block(driver, queue, kBytes, CallBlock::Use::kTensors);
    for (const StorageType &type : kStorageTypes) {
        // In place, and by way of copies.
        for (const int64_t channels : {8, 1}) {
            driver.clear(queue, block.begin(), kBytes);
            warm_up(queue, block.begin(), type.dtype, channels);
        }
    }
    driver.wait(queue);
}

bool is_for_gpu(const Tensor &tensor) {
    last_queue.reset();
    return !tensor.on_host() || forced_gpu() != nullptr;
}

}  // namespace

bool runs_on_gpu(const MsdaInputs &inputs) {
    return is_for_gpu(inputs.value);
}
bool runs_on_gpu(const DaInputs &inputs) {
    return is_for_gpu(inputs.feature_maps);
}

void run_on_gpu(const MsdaForwardCall &call) {
    run_anywhere(call);
}
void run_on_gpu(const MsdaBackwardCall &call) {
    run_anywhere(call);
}
void run_on_gpu(const DaForwardCall &call) {
    run_anywhere(call);
}
void run_on_gpu(const DaBackwardCall &call) {
    run_anywhere(call);
}
void run_on_gpu(const GkaForwardCall &call) {
    run_anywhere(call);
}
void run_on_gpu(const GkaBackwardCall &call) {
    run_anywhere(call);
}

bool deterministic() {
    return wants_deterministic;
}

}  // namespace deformkit

deformkit_status deformkit_set_deterministic(int deterministic) {
    deformkit::wants_deterministic = deterministic != 0;
    return DEFORMKIT_OK;
}

deformkit_status deformkit_warm_up(DLDevice device) {
    using namespace deformkit;
    return guarded([&] {
        require_gpu(device);
        if (!device_answers(device.device_type)) {
            throw Failure(DEFORMKIT_NO_VARIANT,
                          std::string("device: no ") + device_type_name(device.device_type) + " device answers");
        }
        warm_up(device);
    });
}

const char *deformkit_last_device(void) {
    using namespace deformkit;
    thread_local std::string name;
    name.clear();
    if (last_queue) {
        guarded([&] { name = driver_of(last_queue->device.device_type).device_name(*last_queue); });
    }
    return name.c_str();
}
