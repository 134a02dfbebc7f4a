#include "runtime/gpu/device_tensor.h"

#include <limits>
#include <string>

#include "runtime/dispatch/kernel.h"
#include "runtime/interface/error.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

namespace {

constexpr int64_t kLaneBytes = 4 * kLaneWords;

bool is_dense(const Tensor &tensor) {
    const Tensor dense = dense_like(tensor, tensor.data);
    for (int i = 0; i < tensor.ndim; i++) {
        if (tensor.shape[i] > 1 && tensor.strides[i] != dense.strides[i]) {
            return false;
        }
    }
    return true;
}

}  // namespace

DeviceTensor::DeviceTensor(const Tensor &tensor, Elements elements, bool output) : tensor_(tensor), output_(output) {
    host_ = tensor;
    const int last = tensor.ndim - 1;
    if (elements == Elements::kWords) {
        host_.shape[last] = round_up(host_.shape[last], kLaneBytes / host_.element_bytes());
    }
    if (host_.elements() > std::numeric_limits<int32_t>::max()) {
        throw Failure(DEFORMKIT_NO_VARIANT, std::string(tensor.name) + ": expected fewer than 2^31 elements");
    }
    host_ = dense_like(host_, tensor.data);
    const bool aligned = elements != Elements::kWords || reinterpret_cast<uintptr_t>(tensor.data) % kLaneBytes == 0;
    if (!is_dense(tensor) || !aligned || host_.shape[last] != tensor.shape[last]) {
        memory_.resize(host_.elements() * host_.element_bytes());
        host_.data = memory_.data();
        if (!output) {
            Tensor part = host_;
            part.shape = tensor.shape;
            copy_elements(tensor, part);
        }
    }

    // Axes the other way round.
    for (int i = 0; i < host_.ndim; i++) {
        dimensions_[i] =
            halide_dimension_t(0, static_cast<int32_t>(host_.shape[last - i]), static_cast<int32_t>(host_.strides[last - i]));
    }
    buffer_.host = host_.data;
    buffer_.dim = dimensions_;
    buffer_.dimensions = host_.ndim;
    const int bits = host_.dtype.bits;
    buffer_.type = bits == 16 ? halide_type_t(halide_type_uint, 16) : halide_type_t(halide_type_float, 32);
    const auto divide = [&](int by) {
        dimensions_[0].extent /= by;
        for (int i = 1; i < buffer_.dimensions; i++) {
            dimensions_[i].stride /= by;
        }
    };
    if (elements == Elements::kWords && bits == 16) {
        buffer_.type = halide_type_t(halide_type_uint, 32);
        divide(2);
    } else if (elements == Elements::kPairs) {
        buffer_.type = halide_type_t(halide_type_uint, 2 * bits);
        divide(2);
        for (int i = 1; i < buffer_.dimensions; i++) {
            dimensions_[i - 1] = dimensions_[i];
        }
        buffer_.dimensions--;
    } else if (elements == Elements::kBits) {
        const auto code = host_.dtype.code == kDLUInt                ? halide_type_uint
                          : host_.dtype.code == kDLInt || bits == 32 ? halide_type_int
                                                                     : halide_type_float;
        buffer_.type = halide_type_t(code, static_cast<uint8_t>(bits));
    } else if (elements == Elements::kIndices) {
        const int words = bits / 32;
        for (int i = buffer_.dimensions; i > 0; i--) {
            dimensions_[i] = dimensions_[i - 1];
            dimensions_[i].stride *= words;
        }
        dimensions_[0] = halide_dimension_t(0, words, 1);
        buffer_.dimensions++;
        buffer_.type = halide_type_t(halide_type_int, 32);
    }
    buffer_.set_host_dirty(!output);
}

DeviceTensor::~DeviceTensor() {
    halide_device_free(nullptr, &buffer_);
}

void DeviceTensor::join(int i) {
    dimensions_[i].extent *= dimensions_[i + 1].extent;
    for (int j = i + 2; j < buffer_.dimensions; j++) {
        dimensions_[j - 1] = dimensions_[j];
    }
    buffer_.dimensions--;
}

int32_t DeviceTensor::flatten(int i, const Variant &variant) {
    run_on(variant, [&] { return halide_copy_to_device(nullptr, &buffer_, variant.target->device()); });
    const int32_t step = dimensions_[i].stride / kLaneWords;
    dimensions_[i] = halide_dimension_t(0, (dimensions_[i].extent - 1) * step + 1, kLaneWords);
    return step;
}

void DeviceTensor::store() {
    if (output_ && !memory_.empty()) {
        Tensor part = host_;
        part.shape = tensor_.shape;
        copy_elements(part, tensor_);
    }
}

ShiftedStarts::ShiftedStarts(const Tensor &starts, int64_t first_key) {
    const int64_t inner = starts.ndim == 2 ? starts.shape[1] : 1;
    for (int64_t i = 0; first_key != 0 && i < starts.elements(); i++) {
        const int64_t start = starts.ndim == 2 ? read_index(starts, i / inner, i % inner) : read_index(starts, i);
        shifted_.push_back(start - first_key);
    }
}

Tensor ShiftedStarts::of(const Tensor &starts) const {
    if (shifted_.empty()) {
        return starts;
    }
    Tensor tensor = starts;
    tensor.dtype.bits = 64;
    return dense_like(tensor, reinterpret_cast<unsigned char *>(const_cast<int64_t *>(shifted_.data())));
}

}  // namespace deformkit
