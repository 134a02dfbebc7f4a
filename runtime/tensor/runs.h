// Going over the elements of tensors run by run: along the last axis, many runs a step apart at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/system/library_knobs.h"
#include "runtime/system/parallel.h"
#include "runtime/tensor/checked.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Calls `visit` with offsets, in elements, and a number: that many of the runs `begin` to `end` along the last axis begin there,
/// a stride of the last axis but one apart. Both tensors have the same shape, of two axes at least.
template <typename Visit>
void for_runs(const Tensor &from, const Tensor &to, int64_t begin, int64_t end, Visit &&visit) {
    const int last = from.ndim - 1;
    while (begin < end) {
        int64_t rest = begin / from.shape[last - 1], first = begin % from.shape[last - 1];
        const int64_t count = std::min(from.shape[last - 1] - first, end - begin);
        int64_t from_offset = first * from.strides[last - 1], to_offset = first * to.strides[last - 1];
        for (int axis = last - 2; axis >= 0; axis--) {
            const int64_t at = rest % from.shape[axis];
            rest /= from.shape[axis];
            from_offset += at * from.strides[axis];
            to_offset += at * to.strides[axis];
        }
        visit(from_offset, to_offset, count);
        begin += count;
    }
}

/// All runs, in parallel.
template <typename Visit>
void for_each_run(const Tensor &from, const Tensor &to, Visit &&visit) {
    const int64_t run = from.shape[from.ndim - 1], runs = from.elements() / run;
    const int64_t runs_per_task = std::max<int64_t>(1, library_knobs().copy_task_bytes / product({run, from.element_bytes()}));
    parallel_for(divide_up(runs, runs_per_task), [&](int64_t task) {
        for_runs(from, to, task * runs_per_task, std::min(runs, (task + 1) * runs_per_task), visit);
    });
}

inline Tensor with_two_axes(Tensor tensor) {
    while (tensor.ndim < 2) {
        tensor = tensor.split_axis(0, tensor.shape[0]);
    }
    return tensor;
}

/// The same elements in runs of so many bytes at least, where strides allow it, on two axes at least.
inline Tensor with_long_runs(Tensor tensor, int64_t bytes) {
    while (tensor.ndim > 2 && tensor.shape[tensor.ndim - 1] * tensor.element_bytes() < bytes &&
           tensor.can_join_axes(tensor.ndim - 2)) {
        tensor = tensor.join_axes(tensor.ndim - 2);
    }
    return with_two_axes(tensor);
}

}  // namespace deformkit
