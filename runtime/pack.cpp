#include "pack.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>

#include "error.h"
#include "parallel.h"

namespace deformkit {

namespace {

constexpr int64_t kBytesPerTask = int64_t{256} << 10;
constexpr int64_t kRunBytes = 1024;

template <size_t Bytes>
void copy_strided(const unsigned char *from, int64_t from_step, unsigned char *to, int64_t to_step, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        std::memcpy(to + i * to_step, from + i * from_step, Bytes);
    }
}

/// One run along the innermost axis; steps in bytes.
void copy_run(const unsigned char *from, int64_t from_step, unsigned char *to, int64_t to_step, int64_t count, int64_t bytes) {
    if (from_step == bytes && to_step == bytes) {
        std::memcpy(to, from, count * bytes);
    } else if (bytes == 4) {
        copy_strided<4>(from, from_step, to, to_step, count);
    } else if (bytes == 2) {
        copy_strided<2>(from, from_step, to, to_step, count);
    } else {
        copy_strided<8>(from, from_step, to, to_step, count);
    }
}

void clear_run(unsigned char *to, int64_t step, int64_t count, int64_t bytes) {
    if (step == bytes) {
        std::memset(to, 0, count * bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        std::memset(to + i * step, 0, bytes);
    }
}

/// Calls `visit` with the offsets, in elements, of the first element of every run along the last axis; in parallel. Both
/// tensors have the same shape, of two axes at least.
template <typename Visit>
void for_each_run(const Tensor &from, const Tensor &to, Visit &&visit) {
    const int last = from.ndim - 1;
    const int64_t run = from.shape[last], rows = from.elements() / run;
    const int64_t rows_per_task = std::max<int64_t>(1, kBytesPerTask / (run * from.element_bytes()));
    const int64_t tasks = (rows + rows_per_task - 1) / rows_per_task;
    parallel_for(static_cast<int>(tasks), [&](int task) {
        int64_t row = task * rows_per_task;
        const int64_t end = std::min(rows, row + rows_per_task);
        while (row < end) {
            // Pieces of the last axis but one; everything slower in one counter.
            int64_t rest = row / from.shape[last - 1], first = row % from.shape[last - 1];
            const int64_t count = std::min(from.shape[last - 1] - first, end - row);
            int64_t from_offset = first * from.strides[last - 1], to_offset = first * to.strides[last - 1];
            for (int axis = last - 2; axis >= 0; axis--) {
                const int64_t at = rest % from.shape[axis];
                rest /= from.shape[axis];
                from_offset += at * from.strides[axis];
                to_offset += at * to.strides[axis];
            }
            for (int64_t i = 0; i < count; i++) {
                visit(from_offset + i * from.strides[last - 1], to_offset + i * to.strides[last - 1]);
            }
            row += count;
        }
    });
}

Tensor with_two_axes(Tensor tensor) {
    while (tensor.ndim < 2) {
        tensor = tensor.split_axis(0, tensor.shape[0]);
    }
    return tensor;
}

}  // namespace

void copy_elements(const Tensor &from, const Tensor &to) {
    if (from.empty()) {
        return;
    }
    const Tensor source = with_two_axes(from), target = with_two_axes(to);
    const int last = source.ndim - 1;
    const int64_t bytes = source.element_bytes();
    for_each_run(source, target, [&](int64_t from_offset, int64_t to_offset) {
        copy_run(source.data + from_offset * bytes, source.strides[last] * bytes, target.data + to_offset * bytes,
                 target.strides[last] * bytes, source.shape[last], bytes);
    });
}

void fill_zero(const Tensor &tensor) {
    if (tensor.empty()) {
        return;
    }
    // Runs of a few channels would take as long to call memset for as to write.
    Tensor joined = tensor;
    while (joined.ndim > 2 && joined.shape[joined.ndim - 1] * joined.element_bytes() < kRunBytes &&
           joined.can_join_axes(joined.ndim - 2)) {
        joined = joined.join_axes(joined.ndim - 2);
    }
    const Tensor target = with_two_axes(joined);
    const int last = target.ndim - 1;
    const int64_t bytes = target.element_bytes();
    for_each_run(target, target, [&](int64_t offset, int64_t) {
        clear_run(target.data + offset * bytes, target.strides[last] * bytes, target.shape[last], bytes);
    });
}

OwnedTensor allocate_like(const Tensor &like, std::initializer_list<int> order, std::initializer_list<int64_t> extents) {
    OwnedTensor owned;
    owned.tensor = like;
    int64_t elements = 1;
    bool padded = false;
    for (auto axis = std::rbegin(order); axis != std::rend(order); ++axis) {
        const int64_t extent = extents.size() == 0 ? like.shape[*axis] : extents.begin()[*axis];
        padded |= extent != like.shape[*axis];
        owned.tensor.strides[*axis] = elements;
        elements *= extent;
    }
    owned.memory = Scratch(std::max<int64_t>(elements, 1) * like.element_bytes());
    owned.tensor.data = owned.memory.data();
    if (padded) {
        std::memset(owned.tensor.data, 0, elements * like.element_bytes());
    }
    return owned;
}

OwnedTensor allocate_like(const Tensor &like) {
    switch (like.ndim) {
        case 2:
            return allocate_like(like, {0, 1});
        case 3:
            return allocate_like(like, {0, 1, 2});
        case 4:
            return allocate_like(like, {0, 1, 2, 3});
        case 5:
            return allocate_like(like, {0, 1, 2, 3, 4});
        case 6:
            return allocate_like(like, {0, 1, 2, 3, 4, 5});
        default:
            throw std::logic_error(std::string(like.name) + ": a number of axes that no operator has");
    }
}

}  // namespace deformkit
