#include "runtime/gpu/call.h"

#include <algorithm>
#include <string>

#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/interface/error.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"
#include "schedules/copy_gpu_knobs.h"

namespace deformkit {

namespace {

constexpr int64_t kLaneBytes = 16;
constexpr size_t kScratchSteps = 512;  // what any device wants a buffer to begin at a multiple of

DeviceAddress address_of(const Tensor &tensor) {
    return {tensor.object, reinterpret_cast<uint64_t>(tensor.data)};
}

void place(Tensor &tensor, const DeviceAddress &address) {
    tensor.object = address.object;
    tensor.data = reinterpret_cast<unsigned char *>(address.offset);
}

/// Elements of the same size, of which nothing else matters.
Tensor as_integers(const Tensor &tensor) {
    Tensor plain = tensor;
    plain.dtype.code = kDLInt;
    return plain;
}

/// The elements between a tensor's lowest and highest address as one axis, and where its first element is among them.
struct Flat {
    Tensor tensor;
    int64_t first;

    Flat(const Tensor &of, size_t alignment) : tensor(as_integers(of)) {
        const auto [begin, end] = of.byte_range();
        const uint64_t low = reinterpret_cast<uint64_t>(begin) / alignment * alignment;
        tensor.data = reinterpret_cast<unsigned char *>(low);
        tensor.ndim = 1;
        tensor.shape[0] = (end - tensor.data) / of.element_bytes();
        tensor.strides[0] = 1;
        first = (of.data - tensor.data) / of.element_bytes();
    }
};

}  // namespace

bool fits_indices(const Tensor &tensor) {
    const auto [begin, end] = tensor.byte_range();
    return (end - begin) / std::max<int64_t>(tensor.element_bytes(), 1) <= INT32_MAX;
}

void require_fits(const Tensor &tensor) {
    if (!fits_indices(tensor)) {
        throw Failure(DEFORMKIT_NO_VARIANT,
                      std::string(tensor.name) + ": expected less than 2^31 elements of one batch item on a GPU");
    }
}

DeviceBuffer::DeviceBuffer(const Tensor &tensor, const Target &target)
    : Buffer(tensor), handle_{reinterpret_cast<uint64_t>(tensor.data), tensor.object} {
    halide_buffer_t *buffer = get();
    buffer->host = nullptr;
    buffer->device = tensor.device.device_type == kDLOpenCL ? reinterpret_cast<uint64_t>(&handle_) : handle_.offset;
    buffer->device_interface = target.device();
    buffer->set_device_dirty(true);
}

Arguments::Arguments(const Queue &queue, const Variant &variant) : variant_(variant), queue_(queue) {}

Arguments &Arguments::add(const Tensor &tensor) {
    buffers_.emplace_back(tensor, *variant_.target);
    arguments_.push_back(buffers_.back().get());
    return *this;
}

Arguments &Arguments::add(const Tensor &tensor, int axis) {
    add(tensor);
    buffers_.back().get()->dim[tensor.ndim - 1 - axis].stride = static_cast<int32_t>(tensor.strides[axis]);
    return *this;
}

Arguments &Arguments::add(int64_t number) {
    numbers_.push_back(static_cast<int32_t>(number));
    arguments_.push_back(&numbers_.back());
    return *this;
}

Arguments &Arguments::add(bool flag) {
    flags_.push_back(flag);
    arguments_.push_back(&flags_.back());
    return *this;
}

void Arguments::launch() {
    void *context = const_cast<Queue *>(&queue_);
    arguments_.insert(arguments_.begin(), &context);
    run_kernel(variant_, arguments_.data());
}

bool is_dense(const Tensor &tensor) {
    int64_t step = 1;
    for (int axis = tensor.ndim - 1; axis >= 0; axis--) {
        if (tensor.shape[axis] > 1 && tensor.strides[axis] != step) {
            return false;
        }
        step *= tensor.shape[axis];
    }
    return true;
}

GpuCall::GpuCall(const Queue &queue)
    : queue_(queue), driver_(driver_of(queue.device.device_type)), alignment_(driver_.alignment(queue)) {}

const Variant &GpuCall::variant(const char *operation, DLDataType dtype) const {
    const Variant &found = choose_variant(operation, dtype, target_, queue_.device.device_type);
    target_ = found.target;
    return found;
}

bool GpuCall::addressable(const Tensor &tensor) const {
    for (int i = 0; i < tensor.ndim; i++) {
        if (tensor.shape[i] > 1 && tensor.strides[i] < 0) {
            return false;
        }
    }
    return reinterpret_cast<uint64_t>(tensor.data) % alignment_ == 0;
}

bool GpuCall::in_lanes(const Tensor &tensor) const {
    const int last = tensor.ndim - 1;
    const int64_t channels = lane_channels(tensor);
    bool whole =
        dense(tensor, last) && tensor.shape[last] % channels == 0 && reinterpret_cast<uint64_t>(tensor.data) % kLaneBytes == 0;
    for (int i = 0; i < last; i++) {
        whole = whole && (tensor.shape[i] <= 1 || tensor.strides[i] % channels == 0);
    }
    return whole && addressable(tensor);
}

const Tensor &GpuCall::scratch(const Tensor &like, bool clear) {
    require_fits(like);
    const auto [begin, end] = like.byte_range();
    const size_t bytes = (end - begin + kScratchSteps - 1) / kScratchSteps * kScratchSteps;
    scratch_.push_back({like, bytes_, clear});
    bytes_ += bytes;
    Tensor &tensor = scratch_.back().tensor;
    tensor.device = queue_.device;
    return tensor;
}

const Tensor &GpuCall::input(const Tensor &tensor, bool in_place, const Tensor &copy) {
    if (in_place) {
        return in_place_.emplace_back(tensor);
    }
    const Tensor &inside = scratch(copy, copy.elements() > tensor.elements());
    inputs_.push_back({tensor, &inside});
    return inside;
}

const Tensor &GpuCall::output(const Tensor &tensor, bool in_place, const Tensor &copy) {
    if (in_place) {
        return in_place_.emplace_back(tensor);
    }
    const Tensor &inside = scratch(copy);
    outputs_.push_back({tensor, &inside});
    return inside;
}

const Tensor &GpuCall::input(const Tensor &tensor) {
    return input(tensor, addressable(tensor), dense_like(tensor, nullptr));
}

const Tensor &GpuCall::output(const Tensor &tensor) {
    return output(tensor, addressable(tensor), dense_like(tensor, nullptr));
}

Tensor GpuCall::lanes_like(const Tensor &tensor) const {
    Tensor like = tensor;
    const int last = tensor.ndim - 1;
    like.shape[last] = round_up(tensor.shape[last], lane_channels(tensor));
    return dense_like(like, nullptr);
}

const Tensor &GpuCall::input_lanes(const Tensor &tensor) {
    return input(tensor, in_lanes(tensor), lanes_like(tensor));
}

const Tensor &GpuCall::output_lanes(const Tensor &tensor) {
    return output(tensor, in_lanes(tensor), lanes_like(tensor));
}

void GpuCall::open() {
    if (bytes_ > 0) {
        block_.emplace(driver_, queue_, bytes_, CallBlock::Use::kWorkspace);
        for (Scratch &each : scratch_) {
            place(each.tensor, block_->begin() + each.begin);
            if (each.clear) {
                clear(each.tensor);
            }
        }
    }
    for (const Copy &each : inputs_) {
        Tensor inside = *each.inside;
        inside.shape = each.outside.shape;
        copy(each.outside, inside);
    }
}

void GpuCall::close() {
    for (const Copy &each : outputs_) {
        Tensor inside = *each.inside;
        inside.shape = each.outside.shape;
        copy(inside, each.outside);
    }
    block_.reset();
}

void GpuCall::clear(const Tensor &tensor) const {
    if (is_dense(tensor)) {
        if (!tensor.empty()) {
            driver_.clear(queue_, address_of(tensor), tensor.elements() * tensor.element_bytes());
        }
    } else {
        copy_or_clear(tensor, tensor, true);
    }
}

void GpuCall::copy(const Tensor &from, const Tensor &to) const {
    copy_or_clear(from, to, false);
}

void GpuCall::copy_or_clear(const Tensor &from, const Tensor &to, bool clear) const {
    if (to.empty()) {
        return;
    }
    require_fits(from);
    require_fits(to);
    const Flat source(from, alignment_), target(to, alignment_);
    const Variant &kernel = variant("copy_strided", target.tensor.dtype);
    Arguments arguments(queue_, kernel);
    const auto add_axes = [&](const std::array<int64_t, kMaxDimensions> &numbers, int64_t beyond) {
        for (int i = 0; i < kCopyAxes; i++) {
            arguments.add(i < to.ndim ? numbers[to.ndim - 1 - i] : beyond);
        }
    };
    arguments.add(source.tensor).add(to.elements());
    add_axes(to.shape, 1);
    arguments.add(source.first);
    add_axes(from.strides, 0);
    arguments.add(target.first);
    add_axes(to.strides, 0);
    arguments.add(clear).add(target.tensor).launch();
}

}  // namespace deformkit
