// Tensors of a call as GPU kernels take them: docs/gpu.md.
#pragma once

#include <HalideRuntime.h>

#include <cstdint>
#include <vector>

#include "runtime/dispatch/variant.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Words of 32 bits that a thread reads at once.
constexpr int kLaneWords = 4;

/// How a kernel sees the elements of a tensor.
enum class Elements {
    kNumbers,  ///< one by one; 16 bits as integers
    kWords,    ///< the last axis in 16 bytes at a time, filled up with zeros: of float32, or two elements to a word of 32 bits
    kPairs,    ///< the last axis, of two, is one element
    kBits,     ///< one by one; 32 bits as int32, others as they are
    kIndices,  ///< int32, or the two words of an int64 on one more axis
};

/// A tensor in host memory, which a kernel reads or writes on its device: dense, a copy where the caller's is not.
class DeviceTensor {
public:
    /// What is an output is written to the caller's memory by store(), and else read.
    DeviceTensor(const Tensor &tensor, Elements elements, bool output = false);
    DeviceTensor(const DeviceTensor &) = delete;
    DeviceTensor &operator=(const DeviceTensor &) = delete;
    ~DeviceTensor();

    halide_buffer_t *get() { return &buffer_; }
    int32_t extent(int i) const { return dimensions_[i].extent; }  ///< in Halide's order
    /// Axes `i` and i + 1 become one.
    void join(int i);
    /// Replaces axis `i` (in Halide's order), of whole 16 bytes, by one that counts those. How many a step was. Before that it goes to
    /// the device: Halide would copy those 16 bytes one by one.
    int32_t flatten(int i, const Variant &variant);
    void store();

private:
    Tensor tensor_, host_;
    std::vector<unsigned char> memory_;
    halide_buffer_t buffer_{};
    halide_dimension_t dimensions_[kMaxDimensions + 1];
    bool output_;
};

/// Where levels start, counted from a key that is not the first.
class ShiftedStarts {
public:
    ShiftedStarts(const Tensor &starts, int64_t first_key);
    Tensor of(const Tensor &starts) const;

private:
    std::vector<int64_t> shifted_;  // empty: as they are
};

}  // namespace deformkit
