#include "runtime/tensor/buffer.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/tensor/checked.h"

namespace deformkit {

Buffer::Buffer(const Tensor &tensor) {
    buffer_.host = tensor.data;
    buffer_.dimensions = tensor.ndim;
    buffer_.dim = dimensions_;
    buffer_.type.code = tensor.dtype.code == kDLInt      ? halide_type_int
                        : tensor.dtype.code == kDLUInt   ? halide_type_uint
                        : tensor.dtype.code == kDLBfloat ? halide_type_bfloat
                                                         : halide_type_float;
    buffer_.type.bits = tensor.dtype.bits;
    buffer_.type.lanes = 1;
    if (!fits_buffer(tensor)) {
        // Plans refuse such tensors earlier (layout.cpp), but for a device's.
        fail(DEFORMKIT_WRONG_SHAPE, tensor.name, "extents and strides below 2^31", layout_text(tensor));
    }
    int32_t dense = 1;
    for (int i = 0; i < tensor.ndim; i++) {
        const int axis = tensor.ndim - 1 - i;
        // The stride of an axis of one element means nothing, but kernels check it.
        const bool single = tensor.shape[axis] <= 1;
        dimensions_[i] = halide_dimension_t(0, static_cast<int32_t>(tensor.shape[axis]),
                                            single ? dense : static_cast<int32_t>(tensor.strides[axis]));
        dense = single ? dense
                       : static_cast<int32_t>(std::clamp(tensor.strides[axis] * tensor.shape[axis], -kMostOfAxis, kMostOfAxis));
    }
}

void Buffer::flatten_keys(int i) {
    dimensions_[i] = halide_dimension_t(0, (dimensions_[i].extent - 1) * dimensions_[i].stride + 1, 1);
}

bool fits_buffer(const Tensor &tensor) {
    for (int i = 0; i < tensor.ndim; i++) {
        if (tensor.shape[i] > kMostOfAxis || (tensor.shape[i] > 1 && std::abs(tensor.strides[i]) > kMostOfAxis)) {
            return false;
        }
    }
    return true;
}

}  // namespace deformkit
