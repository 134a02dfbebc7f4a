// Halide's view of a tensor.
#pragma once

#include <HalideRuntime.h>

#include "runtime/tensor/tensor.h"

namespace deformkit {

/// A halide_buffer_t over `tensor`, axes reversed (Halide's come fastest first). Not copied or moved: it points into itself.
class Buffer {
public:
    explicit Buffer(const Tensor &tensor);
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    halide_buffer_t *get() { return &buffer_; }
    /// Replaces axis `i` (in Halide's order) by one of stride 1 over the same memory: CPU kernels address cells by their
    /// distance in elements.
    void flatten_keys(int i);

private:
    halide_buffer_t buffer_{};
    halide_dimension_t dimensions_[kMaxDimensions];
};

/// Whether extents and strides fit Halide's 32 bits.
bool fits_buffer(const Tensor &tensor);

}  // namespace deformkit
