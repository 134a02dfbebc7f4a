#include "runtime/tensor/tensor.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "runtime/interface/error.h"
#include "runtime/tensor/checked.h"

namespace deformkit {

namespace {

std::string storage_types() {
    std::string names;
    for (const StorageType &type : kStorageTypes) {
        names += std::string(names.empty() ? "one of " : ", ") + type.long_name;
    }
    return names;
}

}  // namespace

void fail(deformkit_status status, const char *name, const std::string &expected, const std::string &got) {
    throw Failure(status, std::string(name) + ": expected " + expected + ", got " + got);
}

std::string shape_text(const int64_t *shape, int ndim) {
    std::string text = "[";
    for (int i = 0; i < ndim; i++) {
        text += (i ? ", " : "") + std::to_string(shape[i]);
    }
    return text + "]";
}

std::string layout_text(const Tensor &tensor) {
    return "shape " + shape_text(tensor.shape.data(), tensor.ndim) + " and strides " +
           shape_text(tensor.strides.data(), tensor.ndim);
}

int64_t Tensor::elements() const {
    // Exact for what view() accepts. Extents of an empty tensor may be anything: times 0, that is 0 however it wraps.
    uint64_t n = 1;
    for (int i = 0; i < ndim; i++) {
        n *= static_cast<uint64_t>(shape[i]);
    }
    return static_cast<int64_t>(n);
}

std::pair<const unsigned char *, const unsigned char *> Tensor::byte_range() const {
    if (empty()) {
        return {data, data};
    }
    int64_t low = 0, high = 0;
    for (int i = 0; i < ndim; i++) {
        const int64_t reach = (shape[i] - 1) * strides[i];
        (reach < 0 ? low : high) += reach;
    }
    return {data + low * element_bytes(), data + (high + 1) * element_bytes()};
}

Tensor Tensor::split_axis(int axis, int64_t inner) const {
    Tensor result = *this;
    result.ndim++;
    for (int i = result.ndim - 1; i > axis + 1; i--) {
        result.shape[i] = shape[i - 1];
        result.strides[i] = strides[i - 1];
    }
    result.shape[axis] = inner == 0 ? 0 : shape[axis] / inner;
    result.strides[axis] = strides[axis] * inner;
    result.shape[axis + 1] = inner;
    result.strides[axis + 1] = strides[axis];
    return result;
}

bool Tensor::can_join_axes(int axis) const {
    return shape[axis] <= 1 || shape[axis + 1] <= 1 || strides[axis] == strides[axis + 1] * shape[axis + 1];
}

Tensor Tensor::join_axes(int axis) const {
    if (!can_join_axes(axis)) {
        throw std::logic_error(std::string(name) + ": axes cannot be joined");
    }
    Tensor result = *this;
    result.ndim--;
    result.shape[axis] = shape[axis] * shape[axis + 1];
    result.strides[axis] = shape[axis + 1] > 1 ? strides[axis + 1] : strides[axis];
    for (int i = axis + 1; i < result.ndim; i++) {
        result.shape[i] = shape[i + 1];
        result.strides[i] = strides[i + 1];
    }
    return result;
}

Tensor Tensor::insert_axis(int axis) const {
    Tensor result = *this;
    std::copy_backward(shape.begin() + axis, shape.begin() + ndim, result.shape.begin() + ndim + 1);
    std::copy_backward(strides.begin() + axis, strides.begin() + ndim, result.strides.begin() + ndim + 1);
    result.ndim++;
    return result;
}

Tensor Tensor::drop_axis(int axis) const {
    Tensor result = *this;
    std::copy(shape.begin() + axis + 1, shape.begin() + ndim, result.shape.begin() + axis);
    std::copy(strides.begin() + axis + 1, strides.begin() + ndim, result.strides.begin() + axis);
    result.ndim--;
    return result;
}

Tensor Tensor::swap_axes(int a, int b) const {
    Tensor result = *this;
    std::swap(result.shape[a], result.shape[b]);
    std::swap(result.strides[a], result.strides[b]);
    return result;
}

std::string dtype_name(DLDataType dtype) {
    if (const StorageType *type = storage_type(dtype)) {
        return type->long_name;
    }
    std::string name;
    switch (dtype.code) {
        case kDLInt:
            name = "int";
            break;
        case kDLUInt:
            name = "uint";
            break;
        case kDLFloat:
            name = "float";
            break;
        case kDLBfloat:
            name = "bfloat";
            break;
        case kDLComplex:
            name = "complex";
            break;
        case 6:  // kDLBool, which Debian's header does not have yet
            return "bool";
        default:
            name = "type code " + std::to_string(dtype.code) + ", bits ";
            break;
    }
    name += std::to_string(dtype.bits);
    return dtype.lanes == 1 ? name : name + "x" + std::to_string(dtype.lanes);
}

Tensor view(const char *name, const DLTensor *tensor, std::initializer_list<int> ndims) {
    if (tensor == nullptr) {
        fail(DEFORMKIT_NULL_ARGUMENT, name, "a tensor", "NULL");
    }
    if (tensor->dtype.lanes != 1) {
        fail(DEFORMKIT_WRONG_DTYPE, name, "a type of one lane", dtype_name(tensor->dtype));
    }
    DLDevice device = {kDLCPU, 0};
    int32_t device_type = 0;  // any number may come, and an enum with another is undefined
    std::memcpy(&device_type, &tensor->device.device_type, sizeof(device_type));
    switch (device_type) {
        case kDLCPU:
        case kDLCUDAHost:
        case kDLROCMHost:
            break;
        case kDLCUDA:
        case kDLOpenCL:
            device = tensor->device;
            break;
        default:
            fail(DEFORMKIT_WRONG_DEVICE, name, "memory of the host, CUDA or OpenCL (DLPack device types 1, 2, 4)",
                 "DLPack device type " + std::to_string(device_type));
    }
    if (std::find(ndims.begin(), ndims.end(), tensor->ndim) == ndims.end()) {
        std::string expected;
        for (int n : ndims) {
            expected += (expected.empty() ? "" : " or ") + std::to_string(n);
        }
        fail(DEFORMKIT_WRONG_SHAPE, name, expected + " axes", std::to_string(tensor->ndim));
    }
    if (tensor->shape == nullptr) {
        fail(DEFORMKIT_NULL_ARGUMENT, name, "a shape", "NULL");
    }

    Tensor result;
    result.name = name;
    result.dtype = tensor->dtype;
    result.ndim = tensor->ndim;
    result.device = device;
    bool empty = false;
    for (int i = 0; i < result.ndim; i++) {
        result.shape[i] = tensor->shape[i];
        empty = empty || tensor->shape[i] == 0;
        if (tensor->shape[i] < 0) {
            fail(DEFORMKIT_WRONG_SHAPE, name, "no negative extent", shape_text(tensor->shape, result.ndim));
        }
    }
    if (empty) {
        return result;  // strides mean nothing
    }
    if (tensor->data == nullptr) {
        fail(DEFORMKIT_NULL_ARGUMENT, name, "data", "NULL");
    }
    // In elements, which have 32 bytes at most.
    constexpr int64_t kMostReach = kMostBytes / 32;
    int64_t elements = 1, low = 0, high = 1;
    // Of OpenCL, DLPack's data is a cl_mem.
    const bool is_object = device.device_type == kDLOpenCL;
    result.object = is_object ? tensor->data : nullptr;
    uintptr_t begin = is_object ? 0 : reinterpret_cast<uintptr_t>(tensor->data);
    bool fits = !__builtin_add_overflow(begin, tensor->byte_offset, &begin);
    for (int i = result.ndim - 1; i >= 0; i--) {
        // Nor does that of an axis of one element.
        const int64_t stride = result.shape[i] == 1 ? 0 : tensor->strides ? tensor->strides[i] : elements;
        int64_t reach = 0;
        fits = fits && !__builtin_mul_overflow(elements, result.shape[i], &elements) && elements <= kMostElements &&
               !__builtin_mul_overflow(stride, result.shape[i] - 1, &reach) && reach >= -kMostReach && reach <= kMostReach;
        (reach < 0 ? low : high) += fits ? reach : 0;
        result.strides[i] = stride;
    }
    low *= result.element_bytes();
    high *= result.element_bytes();
    fits = fits && begin >= static_cast<uintptr_t>(-low) &&
           begin <= static_cast<uintptr_t>(std::numeric_limits<intptr_t>::max() - high);
    result.data = reinterpret_cast<unsigned char *>(begin);
    if (!fits) {
        fail(DEFORMKIT_WRONG_SHAPE, name, "a size and place that fit in memory",
             layout_text(result) + (tensor->byte_offset ? " from byte " + std::to_string(tensor->byte_offset) : ""));
    }
    return result;
}

void require_same_device(std::initializer_list<const Tensor *> tensors, const Tensor &like) {
    const auto text = [](const DLDevice &device) {
        return device.device_type == kDLCPU
                   ? std::string("host memory")
                   : (device.device_type == kDLCUDA ? "CUDA device " : "OpenCL device ") + std::to_string(device.device_id);
    };
    for (const Tensor *tensor : tensors) {
        if (tensor->device.device_type != like.device.device_type || tensor->device.device_id != like.device.device_id) {
            fail(DEFORMKIT_WRONG_DEVICE, tensor->name, text(like.device) + " as " + like.name, text(tensor->device));
        }
    }
}

void require_same_dtype(const Tensor &tensor, const Tensor &like) {
    if (tensor.dtype.code != like.dtype.code || tensor.dtype.bits != like.dtype.bits) {
        fail(DEFORMKIT_WRONG_DTYPE, tensor.name, dtype_name(like.dtype) + " as " + like.name, dtype_name(tensor.dtype));
    }
}

void require_index_dtype(const Tensor &tensor) {
    if (tensor.dtype.code != kDLInt || (tensor.dtype.bits != 32 && tensor.dtype.bits != 64)) {
        fail(DEFORMKIT_WRONG_DTYPE, tensor.name, "int32 or int64", dtype_name(tensor.dtype));
    }
}

void require_storage_dtype(const Tensor &tensor) {
    if (storage_type(tensor.dtype) == nullptr) {
        fail(DEFORMKIT_WRONG_DTYPE, tensor.name, storage_types(), dtype_name(tensor.dtype));
    }
}

void require_number_dtype(const Tensor &tensor) {
    const int bits = tensor.dtype.bits;
    const bool is_int = tensor.dtype.code == kDLInt && (bits == 8 || bits == 16 || bits == 32 || bits == 64);
    if (storage_type(tensor.dtype) == nullptr && !is_int) {
        fail(DEFORMKIT_WRONG_DTYPE, tensor.name, storage_types() + ", int8, int16, int32, int64", dtype_name(tensor.dtype));
    }
}

void require_extent(const Tensor &tensor, int axis, int64_t extent, const char *meaning) {
    if (tensor.shape[axis] != extent) {
        fail(DEFORMKIT_WRONG_SHAPE, tensor.name,
             "shape[" + std::to_string(axis) + "] == " + std::to_string(extent) + " (" + meaning + ")",
             shape_text(tensor.shape.data(), tensor.ndim));
    }
}

int64_t read_index(const Tensor &tensor, int64_t i, int64_t j, int64_t k) {
    const int64_t offset = i * tensor.strides[0] + j * tensor.strides[1] + k * tensor.strides[2];
    const unsigned char *address = tensor.data + offset * tensor.element_bytes();
    if (tensor.dtype.bits == 32) {
        int32_t value;
        std::memcpy(&value, address, sizeof(value));
        return value;
    }
    int64_t value;
    std::memcpy(&value, address, sizeof(value));
    return value;
}

}  // namespace deformkit
