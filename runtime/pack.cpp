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

}  // namespace

void copy_elements(const Tensor &from, const Tensor &to) {
    if (from.empty()) {
        return;
    }
    // Runs along the last axis, pieces of the one before it, everything slower in one counter.
    Tensor source = from, target = to;
    while (source.ndim < 2) {
        source = source.split_axis(0, source.shape[0]);
        target = target.split_axis(0, target.shape[0]);
    }
    const int last = source.ndim - 1;
    const int64_t bytes = source.element_bytes();
    const int64_t run = source.shape[last];
    const int64_t rows = source.elements() / run;
    const int64_t rows_per_task = std::max<int64_t>(1, kBytesPerTask / (run * bytes));
    const int64_t tasks = (rows + rows_per_task - 1) / rows_per_task;
    parallel_for(static_cast<int>(tasks), [&](int task) {
        int64_t row = task * rows_per_task;
        const int64_t end = std::min(rows, row + rows_per_task);
        while (row < end) {
            int64_t rest = row / source.shape[last - 1], first = row % source.shape[last - 1];
            const int64_t count = std::min(source.shape[last - 1] - first, end - row);
            int64_t from_offset = first * source.strides[last - 1], to_offset = first * target.strides[last - 1];
            for (int axis = last - 2; axis >= 0; axis--) {
                const int64_t at = rest % source.shape[axis];
                rest /= source.shape[axis];
                from_offset += at * source.strides[axis];
                to_offset += at * target.strides[axis];
            }
            for (int64_t i = 0; i < count; i++) {
                copy_run(source.data + (from_offset + i * source.strides[last - 1]) * bytes, source.strides[last] * bytes,
                         target.data + (to_offset + i * target.strides[last - 1]) * bytes, target.strides[last] * bytes, run,
                         bytes);
            }
            row += count;
        }
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
