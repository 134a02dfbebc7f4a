#include "layout.h"

#include <numeric>
#include <vector>

#include "buffer.h"

namespace deformkit {

namespace {

std::vector<int> natural_order(const Tensor &tensor) {
    std::vector<int> order(tensor.ndim);
    std::iota(order.begin(), order.end(), 0);
    return order;
}

}  // namespace

bool dense(const Tensor &tensor, int axis) {
    return tensor.shape[axis] <= 1 || tensor.strides[axis] == 1;
}

bool addressable(const Tensor &tensor, const Variant &variant) {
    for (int i = 0; variant.gpu && i < tensor.ndim; i++) {
        if (tensor.shape[i] > 1 && tensor.strides[i] <= 0) {
            return false;
        }
    }
    return fits_buffer(tensor);
}

Tensor slice(const Tensor &tensor, int axis, int64_t first, int64_t count) {
    Tensor part = tensor;
    part.data += first * tensor.strides[axis] * tensor.element_bytes();
    part.shape[axis] = count;
    return part;
}

Tensor join_samples(const Tensor &tensor) {
    return tensor.join_axes(3).join_axes(2);
}

bool samples_joinable(const Tensor &tensor, const Variant &variant) {
    if (!addressable(tensor, variant) || !tensor.can_join_axes(3) || !tensor.join_axes(3).can_join_axes(2)) {
        return false;
    }
    const Tensor joined = join_samples(tensor);
    const int64_t step = joined.ndim == 3 ? 1 : 2;
    return dense(joined, joined.ndim - 1) && (joined.shape[2] <= 1 || joined.strides[2] == step);
}

OwnedTensor joined_input(const Tensor &tensor, const Variant &variant) {
    if (samples_joinable(tensor, variant)) {
        return {join_samples(tensor), Scratch()};
    }
    OwnedTensor copy = allocate_like(tensor, natural_order(tensor));
    copy_elements(tensor, copy.tensor);
    copy.tensor = join_samples(copy.tensor);
    return copy;
}

JoinedOutput::JoinedOutput(const Tensor &tensor, const Variant &variant) : target_(tensor) {
    if (samples_joinable(tensor, variant)) {
        joined_ = join_samples(tensor);
    } else {
        copy_ = allocate_like(tensor, natural_order(tensor));
        joined_ = join_samples(copy_.tensor);
    }
}

void JoinedOutput::finish() const {
    if (joined_.data != target_.data) {
        copy_elements(copy_.tensor, target_);
    }
}

}  // namespace deformkit
