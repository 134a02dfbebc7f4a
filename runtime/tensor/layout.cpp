#include "runtime/tensor/layout.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <string>

#include "runtime/dispatch/kernel.h"
#include "runtime/system/library_knobs.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/buffer.h"

namespace deformkit {

bool dense(const Tensor &tensor, int axis) {
    return tensor.shape[axis] <= 1 || tensor.strides[axis] == 1;
}

bool items_addressable(const Tensor &tensor) {
    return tensor.shape[0] <= 1 || (std::abs(tensor.strides[0]) <= kMostOfAxis &&
                                    product(&tensor.shape[1], tensor.ndim - 1) <= kMostOfAxis / kChannelMultiple);
}

bool usable_in_place(const Tensor &tensor) {
    return dense(tensor, tensor.ndim - 1) && fits_buffer(tensor);
}

Tensor slice(const Tensor &tensor, int axis, int64_t first, int64_t count) {
    Tensor part = tensor;
    part.data += first * tensor.strides[axis] * tensor.element_bytes();
    part.shape[axis] = count;
    return part;
}

Tensor item(const Tensor &tensor, int axis, int64_t i) {
    return slice(tensor, axis, i, 1).drop_axis(axis);
}

Tensor arranged(const Tensor &tensor, std::initializer_list<int> order, std::initializer_list<int64_t> extents) {
    Tensor result = tensor;
    result.data = nullptr;
    std::copy(extents.begin(), extents.end(), result.shape.begin());
    int64_t elements = 1;
    for (auto axis = std::rbegin(order); axis != std::rend(order); ++axis) {
        result.strides[*axis] = elements;
        elements = product({elements, result.shape[*axis]});
    }
    return result;
}

namespace {

/// Zeros in what `copy` has beyond the extents of `tensor`.
void clear_padding(Tensor copy, const Tensor &tensor) {
    for (int axis = 1; axis < tensor.ndim; axis++) {
        fill_zero(slice(copy, axis, tensor.shape[axis], copy.shape[axis] - tensor.shape[axis]));
        copy.shape[axis] = tensor.shape[axis];
    }
}

}  // namespace

void fail_too_large(const Tensor &tensor, const std::string &expected) {
    fail(DEFORMKIT_WRONG_SHAPE, tensor.name, expected, layout_text(tensor));
}

Staged stage_copy(CallMemory &memory, const Tensor &copy) {
    if (!fits_buffer(copy)) {
        fail_too_large(copy, "a copy of it for kernels with extents and strides below 2^31");
    }
    return {memory, copy};
}

Tensor Staged::of(const Tensor &tensor) const {
    if (in_place()) {
        return tensor;
    }
    Tensor copy = copy_;
    copy.data = memory_->at(begin_);
    copy.shape[0] = tensor.shape[0];
    return copy;
}

Tensor Staged::load(const Tensor &tensor) const {
    const Tensor staged = of(tensor);
    if (in_place()) {
        return staged;
    }
    clear_padding(staged, tensor);
    Tensor filled = staged;
    filled.shape = tensor.shape;
    copy_elements(tensor, filled);
    return staged;
}

void Staged::store(const Tensor &tensor) const {
    if (!in_place()) {
        copy_elements(of(tensor), tensor);
    }
}

Staged stage(CallMemory &memory, const Tensor &tensor) {
    return usable_in_place(tensor) ? Staged() : stage_copy(memory, dense_like(tensor, nullptr));
}

bool channels_readable(const Tensor &tensor) {
    return usable_in_place(tensor) && tensor.shape[3] % kChannelMultiple == 0;
}

Staged stage_grad_output(CallMemory &memory, const Tensor &grad_output) {
    if (channels_readable(grad_output)) {
        return {};
    }
    const int64_t channels = round_up(grad_output.shape[3], kChannelMultiple);
    return stage_copy(memory, arranged(grad_output, {0, 2, 1, 3},
                                       {grad_output.shape[0], grad_output.shape[1], grad_output.shape[2], channels}));
}

namespace {

/// Whether strides and sizes are a kernel's as they are.
bool cells_readable(const Tensor &value) {
    return channels_readable(value) && keys_addressable(value.shape[1], value.strides[1]);
}

/// By a kernel that reads numbers of one type, and writes them in another. Divided here, not in the kernel, which also serves a
/// slab within a task (slabs.cpp): there is nothing to divide there, and the order of cells is all that a schedule decides.
void convert(const Variant &kernel, const Tensor &from, Tensor to) {
    if (from.empty()) {
        return;
    }
    to.shape = from.shape;
    const int64_t items = from.shape[0], keys = from.shape[1];
    const int64_t bytes = to.elements() * to.element_bytes() / items;
    const int64_t tasks = std::clamp<int64_t>(bytes / library_knobs().copy_task_bytes, 1, keys);
    parallel_for(items * tasks, [&](int64_t task) {
        const int64_t b = task / tasks, first = keys * (task % tasks) / tasks, end = keys * (task % tasks + 1) / tasks;
        Buffer input(slice(item(from, 0, b), 0, first, end - first)), output(slice(item(to, 0, b), 0, first, end - first));
        void *args[] = {input.get(), output.get()};
        run_kernel(kernel, args);
    });
}

}  // namespace

StagedCells::StagedCells(CallMemory &memory, const Tensor &value, const Packing &packing, std::initializer_list<int> order)
    : widen_(packing.widen) {
    if (!packing.always && cells_readable(value)) {
        return;
    }
    Tensor like = value;
    if (widen_ != nullptr) {
        like.dtype = arithmetic_type(value.dtype);
        readable_ = stage(memory, value);
    }
    const std::initializer_list<int64_t> extents = {value.shape[0], value.shape[1], value.shape[2],
                                                    round_up(value.shape[3], kChannelMultiple)};
    const Tensor copy = arranged(like, order, extents);
    if (!keys_addressable(copy.shape[1], copy.strides[1])) {
        fail_too_large(
            value, "keys in less than 2^31 elements, channels filled up to a multiple of " + std::to_string(kChannelMultiple));
    }
    cells_ = stage_copy(memory, copy);
}

Cells StagedCells::load(const Tensor &value) const {
    Cells cells;
    if (widen_ != nullptr) {
        cells.tensor = cells_.of(value);
        clear_padding(cells.tensor, value);
        convert(*widen_, readable_.load(value), cells.tensor);
    } else {
        cells.tensor = cells_.load(value);
    }
    cells.num_keys = static_cast<int32_t>(value.shape[1]);
    cells.key_step = static_cast<int32_t>(cells.tensor.strides[1]);
    return cells;
}

Tensor join_samples(const Tensor &tensor) {
    Tensor joined = tensor;
    joined.ndim -= 2;
    joined.shape[2] = tensor.shape[2] * tensor.shape[3] * tensor.shape[4];
    // That of the innermost axis of more than one element.
    joined.strides[2] = tensor.strides[tensor.shape[4] > 1 ? 4 : tensor.shape[3] > 1 ? 3 : 2];
    joined.shape[3] = tensor.shape[5];
    joined.strides[3] = tensor.strides[5];
    return joined;
}

Staged stage_samples(CallMemory &memory, const Tensor &tensor) {
    // One stride for heads, levels and points, and a location is two numbers.
    int64_t step = tensor.ndim == 6 ? 2 : 1;
    const int64_t joined = product(&tensor.shape[2], 3);
    if (product({joined, step}) > kMostOfAxis) {
        fail_too_large(tensor, "less than 2^31 numbers for the samples of a query");
    }
    bool in_place = fits_buffer(tensor) && (tensor.ndim == 5 || dense(tensor, 5));
    for (int axis = 4; axis >= 2; axis--) {
        in_place = in_place && (tensor.shape[axis] <= 1 || tensor.strides[axis] == step);
        step *= tensor.shape[axis];
    }
    return in_place ? Staged() : stage_copy(memory, dense_like(tensor, nullptr));
}

}  // namespace deformkit
