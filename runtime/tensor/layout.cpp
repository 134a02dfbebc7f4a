#include "runtime/tensor/layout.h"

#include <algorithm>

#include "runtime/system/parallel.h"
#include "runtime/system/workspace.h"
#include "runtime/tensor/buffer.h"

namespace deformkit {

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

bool usable_in_place(const Tensor &tensor, const Variant &variant) {
    return dense(tensor, tensor.ndim - 1) && addressable(tensor, variant);
}

OwnedTensor readable(const Tensor &tensor, const Variant &variant) {
    if (usable_in_place(tensor, variant)) {
        return {tensor, Scratch()};
    }
    OwnedTensor copy = allocate_like(tensor);
    copy_elements(tensor, copy.tensor);
    return copy;
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

bool rows_readable(const Tensor &rows, const Variant &variant) {
    return usable_in_place(rows, variant) && rows.shape[3] % kChannelMultiple == 0;
}

bool cells_readable(const Tensor &value, const Variant &variant, int64_t keys) {
    const int64_t step = value.strides[1];
    return rows_readable(value, variant) && value.shape[1] == keys && step >= 0 && (keys - 1) * step < INT32_MAX;
}

namespace {

constexpr int64_t kConvertedBytesPerTask = int64_t{256} << 10;

/// By a kernel that reads numbers of one type, and writes them in another.
void convert(const Variant &kernel, const Tensor &all, const Tensor &to) {
    if (all.empty()) {
        return;
    }
    const OwnedTensor input_memory = readable(all, kernel);
    const Tensor &from = input_memory.tensor;
    const int64_t items = from.shape[0], keys = from.shape[1];
    const int64_t tasks = std::clamp<int64_t>(to.elements() * to.element_bytes() / items / kConvertedBytesPerTask, 1, keys);
    parallel_for(static_cast<int>(items * tasks), [&](int task) {
        const int64_t b = task / tasks, first = keys * (task % tasks) / tasks, end = keys * (task % tasks + 1) / tasks;
        Buffer input(slice(item(from, 0, b), 0, first, end - first)), output(slice(item(to, 0, b), 0, first, end - first));
        void *args[] = {input.get(), output.get()};
        run_kernel(kernel, args, {input.get(), output.get()});
    });
}

}  // namespace

Cells prepare_cells(const Tensor &value, const Variant &variant, const Packing &packing, std::initializer_list<int> order,
                    int64_t keys) {
    const int64_t heads = value.shape[2], channels = round_up(value.shape[3], kChannelMultiple);
    Cells cells;
    cells.tensor = value;
    if (packing.always || !cells_readable(value, variant, keys)) {
        Tensor like = value;
        if (packing.widen != nullptr) {
            like.dtype = arithmetic_type(value.dtype);
        }
        cells.packed = allocate_like(like, order, {value.shape[0], keys, heads, channels});
        if (packing.widen != nullptr) {
            convert(*packing.widen, value, cells.packed.tensor);
        } else {
            copy_elements(value, cells.packed.tensor);
        }
        cells.tensor = cells.packed.tensor;
    }
    cells.tensor.shape = {value.shape[0], keys, heads, channels};
    cells.num_keys = static_cast<int32_t>(keys);
    cells.key_step = static_cast<int32_t>(cells.tensor.strides[1]);
    return cells;
}

Rows prepare_rows(const Tensor &rows, const Variant &variant) {
    Rows result;
    result.tensor = rows;
    if (!rows_readable(rows, variant)) {
        const int64_t channels = round_up(rows.shape[3], kChannelMultiple);
        result.packed = allocate_like(rows, {0, 2, 1, 3}, {rows.shape[0], rows.shape[1], rows.shape[2], channels});
        copy_elements(rows, result.packed.tensor);
        result.tensor = result.packed.tensor;
        result.tensor.shape[3] = channels;
    }
    return result;
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

int64_t joined_workspace(const Tensor &tensor, const Variant &variant) {
    return samples_joinable(tensor, variant) ? 0 : workspace_block(tensor.elements() * tensor.element_bytes());
}

OwnedTensor joined_input(const Tensor &tensor, const Variant &variant) {
    if (samples_joinable(tensor, variant)) {
        return {join_samples(tensor), Scratch()};
    }
    OwnedTensor copy = allocate_like(tensor);
    copy_elements(tensor, copy.tensor);
    copy.tensor = join_samples(copy.tensor);
    return copy;
}

}  // namespace deformkit
