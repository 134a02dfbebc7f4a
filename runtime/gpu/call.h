// One call on tensors in a device's memory: what lies as kernels cannot use it is copied there, and kernels are launched. Nothing
// waits for the device.
#pragma once

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <vector>

#include "runtime/dispatch/variant.h"
#include "runtime/gpu/memory.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// A halide_buffer_t over a tensor in a device's memory.
class DeviceBuffer : public Buffer {
public:
    DeviceBuffer(const Tensor &tensor, const Target &target);

private:
    // As Halide's runtime describes OpenCL's memory. Its own way of making one allocates.
    struct OpenClHandle {
        uint64_t offset;
        void *object;
    } handle_;
};

/// The arguments of a kernel, in its order.
class Arguments {
public:
    Arguments(const Queue &queue, const Variant &variant);
    Arguments &add(const Tensor &tensor);
    /// With this stride, in the tensor's order, also where it does not matter to anyone but the kernel.
    Arguments &add(const Tensor &tensor, int axis);
    Arguments &add(int64_t number);  ///< as int32
    Arguments &add(bool flag);
    /// At most once.
    void launch();

private:
    const Variant &variant_;
    const Queue &queue_;
    std::deque<DeviceBuffer> buffers_;
    std::deque<int32_t> numbers_;
    std::deque<bool> flags_;
    std::vector<void *> arguments_;
};

class GpuCall {
public:
    explicit GpuCall(const Queue &queue);

    const Queue &queue() const { return queue_; }
    /// The best row, or the forced one; of the target of the first that was asked for.
    const Variant &variant(const char *operation, DLDataType dtype) const;

    /// Whether kernels can address it: no steps backwards, and as the device wants a buffer to begin.
    bool addressable(const Tensor &tensor) const;
    /// The same, and its innermost axis consists of whole lanes: kernels read and write 16 bytes at once.
    bool in_lanes(const Tensor &tensor) const;

    // What kernels see, from open() on. Tensors with a batch have it in front.
    const Tensor &input(const Tensor &tensor, bool in_place, const Tensor &copy);
    const Tensor &output(const Tensor &tensor, bool in_place, const Tensor &copy);
    /// The tensor itself where it is addressable, else a dense copy.
    const Tensor &input(const Tensor &tensor);
    const Tensor &output(const Tensor &tensor);
    /// The tensor itself where it is in lanes, else a copy, filled up to whole lanes.
    const Tensor &input_lanes(const Tensor &tensor);
    const Tensor &output_lanes(const Tensor &tensor);
    /// Memory with the shape, strides and type of `like`; `clear`: zeros.
    const Tensor &scratch(const Tensor &like, bool clear = false);

    void open();
    /// Outputs that were written to copies go to where they belong.
    void close();

    /// Zeros, whatever the strides.
    void clear(const Tensor &tensor) const;
    void copy(const Tensor &from, const Tensor &to) const;

private:
    struct Scratch {
        Tensor tensor;
        size_t begin;
        bool clear;
    };
    struct Copy {
        Tensor outside;
        const Tensor *inside;
    };

    void copy_or_clear(const Tensor &from, const Tensor &to, bool clear) const;
    Tensor lanes_like(const Tensor &tensor) const;

    Queue queue_;
    const Driver &driver_;
    mutable const Target *target_ = nullptr;
    size_t alignment_, bytes_ = 0;
    std::deque<Tensor> in_place_;
    std::deque<Scratch> scratch_;
    std::vector<Copy> inputs_, outputs_;
    std::optional<CallBlock> block_;
};

/// Whether all elements from its lowest address on have a number of 31 bits, as kernels count.
bool fits_indices(const Tensor &tensor);
void require_fits(const Tensor &tensor);

/// Whether elements lie one behind the other, in the order of the axes.
bool is_dense(const Tensor &tensor);

/// Channels in 16 bytes.
inline int64_t lane_channels(const Tensor &tensor) {
    return 16 / tensor.element_bytes();
}

}  // namespace deformkit
