// What every kernel asks of the buffers that the runtime hands over.
#pragma once

#include <Halide.h>

namespace deformkit {

/// Kernels that read whole vectors of channels want this many, or a multiple: the widest vector of float32.
constexpr int kChannelMultiple = 16;

/// Lanes of the type of arithmetic, where a vector holds `lanes` of float32.
inline int compute_lanes(Halide::Type storage, int lanes) {
    return storage.bits() == 64 ? lanes / 2 : lanes;
}

/// Minima are zero, the innermost axis is dense; other strides are free.
template <typename Buffer>
void dense_from_zero(Buffer &buffer) {
    buffer.dim(0).set_stride(1);
    for (int i = 0; i < buffer.dimensions(); i++) {
        buffer.dim(i).set_min(0);
    }
}

}  // namespace deformkit
