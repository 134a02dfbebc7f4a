// How tensors have to lie in memory for a kernel to read or write them in place, and what is done where they do not.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "generators/shared/contract.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/system/memory.h"
#include "runtime/tensor/checked.h"
#include "runtime/tensor/pack.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Refuses the tensor with a Failure, which says its layout.
[[noreturn]] void fail_too_large(const Tensor &tensor, const std::string &expected);

/// Elements along `axis` are neighbours in memory.
bool dense(const Tensor &tensor, int axis);

/// Kernels count the elements between cells in 32 bits, and keep the last number for themselves.
inline bool keys_addressable(int64_t keys, int64_t step) {
    return step >= 0 && product({keys - 1, step}) < kMostOfAxis;
}

/// Whether several items of the first axis can be had at once, where they are and in a copy filled up with channels.
bool items_addressable(const Tensor &tensor);

/// Whether kernels can read or write a tensor where it is, its innermost axis dense.
bool usable_in_place(const Tensor &tensor);

/// `count` items along `axis`, from `first` on.
Tensor slice(const Tensor &tensor, int axis, int64_t first, int64_t count);

/// One item along `axis`, without that axis.
Tensor item(const Tensor &tensor, int axis, int64_t i);

/// `tensor` with other extents, its axes lying in memory from slowest to fastest as `order` lists them.
Tensor arranged(const Tensor &tensor, std::initializer_list<int> order, std::initializer_list<int64_t> extents);

/// A tensor as kernels want it: the caller's own memory where that will do, otherwise a copy, for which the call has room. What
/// kernels could not address is refused while the call is planned, before anything is written.
class Staged {
public:
    /// The caller's own.
    Staged() = default;
    /// A copy with the shape and strides of `copy`: larger than the tensor where kernels want it filled up with zeros.
    Staged(CallMemory &memory, const Tensor &copy)
        : memory_(&memory), begin_(memory.reserve(copy.elements(), copy.element_bytes())), copy_(copy) {}

    bool in_place() const { return memory_ == nullptr; }
    /// What kernels see for `tensor`, of which the first axis may be shorter than what there is room for. A copy is not filled.
    Tensor of(const Tensor &tensor) const;
    /// The same, filled.
    Tensor load(const Tensor &tensor) const;
    /// A copy that was written to goes to where it belongs.
    void store(const Tensor &tensor) const;

private:
    const CallMemory *memory_ = nullptr;
    size_t begin_ = 0;
    Tensor copy_;
};

/// A copy as it is, which kernels have to be able to address.
Staged stage_copy(CallMemory &memory, const Tensor &copy);
/// As it is, if that is usable; else a dense copy.
Staged stage(CallMemory &memory, const Tensor &tensor);

/// How cells are copied.
struct Packing {
    bool always = false;             ///< else only where strides or sizes are not a kernel's
    const Variant *widen = nullptr;  ///< to the type of arithmetic, by this kernel; wants `always`
};

/// Whether kernels can read [count, queries or keys, heads, channels] where it is, in whole vectors of channels.
bool channels_readable(const Tensor &tensor);
/// Gradients of outputs as kernels read them: [count, queries, heads, channels], copied head by head.
Staged stage_grad_output(CallMemory &memory, const Tensor &grad_output);

/// Cells as kernels read them: [count, keys, heads, channels].
struct Cells {
    Tensor tensor;
    int32_t num_keys, key_step;
};

class StagedCells {
public:
    StagedCells() = default;
    /// `value` is [count, K, heads, channels]. A copy has its axes from slowest to fastest as `order` lists them, with zeros up
    /// to a multiple of channels.
    StagedCells(CallMemory &memory, const Tensor &value, const Packing &packing, std::initializer_list<int> order);
    Cells load(const Tensor &value) const;

private:
    const Variant *widen_ = nullptr;
    Staged readable_, cells_;  // what is widened, and the result
};

/// [B, Q, M, L, P] as [B, Q, M * L * P], or [B, Q, M, L, P, 2] as [B, Q, M * L * P, 2]: the samples of all heads joined.
Tensor join_samples(const Tensor &tensor);
/// Copied where that cannot be had in place, samples beside each other as kernels want them.
Staged stage_samples(CallMemory &memory, const Tensor &tensor);

}  // namespace deformkit
