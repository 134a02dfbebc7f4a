// Tensors in memory that tells: right beside the data lies an unmapped page, on the other side and between the elements lies
// poison. Reading or writing past one end kills the process; writing past the other, or between elements, is found afterwards.
#pragma once

#include <dlpack/dlpack.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "tests/support/types.h"

namespace deformkit::testing {

/// Which end of the data lies against an unmapped page.
enum class Guard { kAfter, kBefore };

class GuardedBuffer {
public:
    GuardedBuffer(size_t bytes, Guard guard);
    GuardedBuffer(GuardedBuffer &&other) noexcept;
    GuardedBuffer &operator=(GuardedBuffer &&) = delete;
    ~GuardedBuffer();

    uint8_t *data() const { return data_; }
    size_t size() const { return size_; }

    bool poison_intact() const;  ///< beside the data
    void make_read_only();       ///< from now on a write kills the process

    /// As a number of any type a NaN, as an index -1.
    static constexpr uint8_t kPoison = 0xff;

private:
    size_t size_, mapped_bytes_;
    uint8_t *mapped_, *data_;
};

/// How a tensor lies in memory. Vectors may be left empty; else they have one entry an axis.
struct Layout {
    std::vector<int> order;      ///< axes from slowest to fastest; empty: as they come
    std::vector<int64_t> step;   ///< multiplies an axis's stride: the tensor is a slice with that step
    std::vector<int64_t> pad;    ///< adds to an axis's stride: the tensor is a slice of one that is longer in the faster axes
    std::vector<bool> reversed;  ///< negative stride
    std::vector<bool> expanded;  ///< stride 0
    Guard guard = Guard::kAfter;
    int64_t byte_offset = 0;
    bool null_strides = false;  ///< only where the tensor is dense
};

std::vector<int64_t> strides_of(const std::vector<int64_t> &shape, const Layout &layout);
std::vector<int64_t> dense_strides(const std::vector<int64_t> &shape);
int64_t count_of(const std::vector<int64_t> &shape);

/// Calls with each element's offset, in row-major order.
void for_each_offset(const std::vector<int64_t> &shape, const std::vector<int64_t> &strides,
                     const std::function<void(int64_t offset)> &use);

template <typename T>
DLDataType dtype_of() {
    const auto code = std::is_floating_point_v<T> ? kDLFloat : std::is_signed_v<T> ? kDLInt : kDLUInt;
    return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * sizeof(T)), 1};
}

/// A DLTensor that owns its memory, shape and strides. Elements start as poison.
class GuardedTensor {
public:
    GuardedTensor(DLDataType dtype, std::vector<int64_t> shape, const Layout &layout = {});
    GuardedTensor(const GuardedTensor &) = delete;

    DLTensor *dl() { return &dl_; }
    const std::vector<int64_t> &shape() const { return shape_; }
    const std::vector<int64_t> &strides() const { return strides_; }

    /// Row-major elements in and out. Where elements share memory (expanded axes), the last one stays.
    template <typename T>
    void store(const std::vector<T> &dense) {
        if (dense.size() != static_cast<size_t>(count_of(shape_)) || sizeof(T) != element_bytes_) {
            throw std::invalid_argument("GuardedTensor::store: elements of another number or size");
        }
        if (is_dense()) {
            std::copy_n(reinterpret_cast<const uint8_t *>(dense.data()), buffer_.size(), buffer_.data());
            return;
        }
        size_t i = 0;
        for_each_offset(shape_, strides_, [&](int64_t offset) { std::memcpy(at(offset), &dense[i++], sizeof(T)); });
    }

    template <typename T>
    std::vector<T> load() const {
        std::vector<T> dense(count_of(shape_));
        if (is_dense()) {
            std::copy_n(buffer_.data(), buffer_.size(), reinterpret_cast<uint8_t *>(dense.data()));
            return dense;
        }
        size_t i = 0;
        for_each_offset(shape_, strides_, [&](int64_t offset) { std::memcpy(&dense[i++], at(offset), sizeof(T)); });
        return dense;
    }

    /// The same for the types of types.h, whichever the tensor has: rounded on the way in, exact on the way out.
    void store_numbers(const std::vector<double> &dense);
    std::vector<double> load_numbers() const;

    bool all_poison() const;             ///< nothing was written at all
    bool surroundings_intact() const;    ///< nothing was written beside and between the elements
    int64_t elements_in_poison() const;  ///< elements that nothing was written to
    void make_read_only() { buffer_.make_read_only(); }

private:
    bool is_dense() const { return strides_ == dense_strides(shape_); }
    uint8_t *at(int64_t offset) const { return buffer_.data() + (offset - lowest_) * static_cast<int64_t>(element_bytes_); }

    std::vector<int64_t> shape_, strides_;
    int64_t lowest_;  ///< offset of the element with the lowest address, 0 or less
    size_t element_bytes_;
    GuardedBuffer buffer_;
    DLTensor dl_;
};

}  // namespace deformkit::testing
