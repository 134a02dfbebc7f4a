// Copies between layouts: what a kernel cannot read or write in place.
#pragma once

#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Copies every element of `from` to the same index of `to`; shapes and types are equal, strides are free.
void copy_elements(const Tensor &from, const Tensor &to);

/// The same on this thread alone. `stream`: past the caches where `to` allows it, which spares reading what is overwritten.
void copy_block(const Tensor &from, const Tensor &to, bool stream);

/// Whether an output is so large, of `least_bytes`, that it leaves the caches before it is read again.
bool worth_streaming(const Tensor &output, int64_t least_bytes);

/// Sets every element to zero (all-zero bits), whatever the strides.
void fill_zero(const Tensor &tensor);
/// The same on this thread alone.
void clear_block(const Tensor &tensor);

/// A tensor of the same shape and type that lies dense at `data`.
Tensor dense_like(const Tensor &like, unsigned char *data);

}  // namespace deformkit
