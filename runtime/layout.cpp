#include "layout.h"

#include "buffer.h"
#include "workspace.h"

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

Tensor slice(const Tensor &tensor, int axis, int64_t first, int64_t count) {
    Tensor part = tensor;
    part.data += first * tensor.strides[axis] * tensor.element_bytes();
    part.shape[axis] = count;
    return part;
}

Tensor item(const Tensor &tensor, int axis, int64_t i) {
    return slice(tensor, axis, i, 1).drop_axis(axis);
}

bool can_be_pairs(const Tensor &tensor) {
    const int last = tensor.ndim - 1;
    bool even = tensor.shape[last] % 2 == 0 && dense(tensor, last);
    for (int i = 0; i < last; i++) {
        even &= tensor.shape[i] <= 1 || tensor.strides[i] % 2 == 0;
    }
    return even;
}

Tensor as_pairs(const Tensor &tensor) {
    Tensor pairs = tensor;
    const int last = tensor.ndim - 1;
    pairs.dtype = {kDLUInt, 32, 1};
    pairs.shape[last] /= 2;
    for (int i = 0; i < last; i++) {
        pairs.strides[i] /= 2;
    }
    return pairs;
}

bool cells_readable(const Tensor &value, const Variant &variant, int64_t keys, int64_t channel_multiple) {
    const int64_t step = value.strides[1];
    return usable_in_place(value, variant) && value.shape[3] % channel_multiple == 0 && value.shape[1] == keys && step >= 0 &&
           (keys - 1) * step < INT32_MAX;
}

Cells prepare_cells(const Tensor &value, const Variant &variant, bool pack, std::initializer_list<int> order, int64_t keys,
                    int64_t channel_multiple) {
    const int64_t heads = value.shape[2], channels = round_up(value.shape[3], channel_multiple);
    Cells cells;
    cells.tensor = value;
    if (pack || !cells_readable(value, variant, keys, channel_multiple)) {
        cells.packed = allocate_like(value, order, {value.shape[0], keys, heads, channels});
        copy_elements(value, cells.packed.tensor);
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
    const int64_t channels = round_up(rows.shape[3], kChannelMultiple);
    if (!usable_in_place(rows, variant) || rows.shape[3] != channels) {
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
