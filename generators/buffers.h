// What every kernel asks of the buffers that the runtime hands over.
#pragma once

#include <Halide.h>

namespace deformkit {

/// Minima are zero, the innermost axis is dense; other strides are free.
template <typename Buffer>
void dense_from_zero(Buffer &buffer) {
    buffer.dim(0).set_stride(1);
    for (int i = 0; i < buffer.dimensions(); i++) {
        buffer.dim(i).set_min(0);
    }
}

}  // namespace deformkit
