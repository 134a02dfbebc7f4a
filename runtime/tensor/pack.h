// Copies between layouts: what a kernel cannot read or write in place.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/system/memory.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Copies every element of `from` to the same index of `to`; shapes and types are equal, strides are free.
void copy_elements(const Tensor &from, const Tensor &to);

/// The same on this thread alone. `stream`: past the caches where `to` allows it, which spares reading what is overwritten.
void copy_block(const Tensor &from, const Tensor &to, bool stream);

/// Whether an output is so large that it leaves the caches before it is read again.
bool worth_streaming(const Tensor &output);

/// Sets every element to zero (all-zero bits), whatever the strides.
void fill_zero(const Tensor &tensor);
/// The same on this thread alone.
void clear_block(const Tensor &tensor);

/// A tensor of the same shape and type that lies dense at `data`.
Tensor dense_like(const Tensor &like, unsigned char *data);

/// A tensor in scratch memory.
struct OwnedTensor {
    Tensor tensor;
    Scratch memory;
};

/// Uninitialised, with the shape and type of `like`. `order` lists the axes of memory from slowest to fastest; `extents`, where
/// it is given, holds the extents to allocate for (at least the shape's): what lies between is set to zero.
OwnedTensor allocate_like(const Tensor &like, std::initializer_list<int> order, std::initializer_list<int64_t> extents = {});
/// Dense, axes in their own order.
OwnedTensor allocate_like(const Tensor &like);

}  // namespace deformkit
