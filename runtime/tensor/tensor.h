// A checked view of a caller's DLTensor.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "deformkit/deformkit.h"
#include "runtime/tensor/types.h"

namespace deformkit {

constexpr int kMaxDimensions = 6;

/// Axes in the order of the C interface (last fastest); strides in elements.
struct Tensor {
    const char *name = "";
    unsigned char *data = nullptr;
    DLDevice device{kDLCPU, 0};
    void *object = nullptr;  ///< OpenCL's cl_mem, in which `data` is a distance from the beginning
    DLDataType dtype{};
    int ndim = 0;
    std::array<int64_t, kMaxDimensions> shape{}, strides{};

    int64_t elements() const;
    int64_t element_bytes() const { return dtype.bits / 8; }
    bool empty() const { return elements() == 0; }
    bool on_host() const { return device.device_type == kDLCPU; }
    /// First and one past the last byte that any element occupies; equal when empty.
    std::pair<const unsigned char *, const unsigned char *> byte_range() const;
    /// Splits an axis in two, or joins axis and axis + 1 where their strides allow (throws std::logic_error otherwise).
    Tensor split_axis(int axis, int64_t inner) const;
    bool can_join_axes(int axis) const;
    Tensor join_axes(int axis) const;
    /// A copy of `axis` in front of it, to be given another extent and stride; the tensor without `axis` (item 0 of it).
    Tensor insert_axis(int axis) const;
    Tensor drop_axis(int axis) const;
    Tensor swap_axes(int a, int b) const;
};

std::string dtype_name(DLDataType dtype);
std::string shape_text(const int64_t *shape, int ndim);
std::string layout_text(const Tensor &tensor);
/// Throws a Failure: "name: expected ..., got ...".
[[noreturn]] void fail(deformkit_status status, const char *name, const std::string &expected, const std::string &got);

/// Checks all that can be checked of one argument alone: not NULL, a plain type, a known device, `ndim` axes (one of those given),
/// no negative extent, data where there are elements, and all of these at addresses (checked.h). Strides that mean nothing, of an
/// empty tensor or an axis of one element, become 0.
Tensor view(const char *name, const DLTensor *tensor, std::initializer_list<int> ndims);

void require_same_device(std::initializer_list<const Tensor *> tensors, const Tensor &like);
void require_same_dtype(const Tensor &tensor, const Tensor &like);
void require_index_dtype(const Tensor &tensor);
/// A floating-point type that can be stored.
void require_storage_dtype(const Tensor &tensor);
/// Any such type, or a signed integer.
void require_number_dtype(const Tensor &tensor);
/// `extent` is what `meaning` (such as "L = spatial_shapes.shape[0]") says.
void require_extent(const Tensor &tensor, int axis, int64_t extent, const char *meaning);

/// An output must not overlap itself or an input. Exact: interleaved views of one allocation are fine (overlap.cpp).
void require_no_overlap(const Tensor &output, std::initializer_list<const Tensor *> inputs);

/// Reads element (i), (i, j) or (i, j, k) of an int32 or int64 tensor.
int64_t read_index(const Tensor &tensor, int64_t i, int64_t j = 0, int64_t k = 0);

}  // namespace deformkit
