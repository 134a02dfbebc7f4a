// Halide's view of a tensor.
#pragma once

#include <HalideRuntime.h>

#include "tensor.h"

namespace deformkit {

/// A halide_buffer_t over `tensor`, axes reversed (Halide's come fastest first). Not copied or moved: it points into itself.
class Buffer {
public:
    explicit Buffer(const Tensor &tensor);
    Buffer(const Buffer &) = delete;
    Buffer &operator=(const Buffer &) = delete;

    halide_buffer_t *get() { return &buffer_; }
    /// Gives axis `i` (in Halide's order) an extent and a stride other than the tensor's, for memory known to be there.
    void set_axis(int i, int64_t extent, int64_t stride);

private:
    halide_buffer_t buffer_{};
    halide_dimension_t dimensions_[kMaxDimensions];
};

/// Whether extents and strides fit Halide's 32 bits.
bool fits_buffer(const Tensor &tensor);

}  // namespace deformkit
