// How tensors have to lie in memory for a kernel to read or write them in place, and what is done where they do not.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "runtime/dispatch/dispatch.h"
#include "runtime/tensor/pack.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Kernels read whole vectors of channels: the widest holds this many.
constexpr int64_t kChannelMultiple = 16;
/// And cells in pairs: there are always two.
constexpr int64_t kMinCells = 2;

inline int64_t divide_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

inline int64_t round_up(int64_t a, int64_t b) {
    return divide_up(a, b) * b;
}

/// Elements along `axis` are neighbours in memory.
bool dense(const Tensor &tensor, int axis);

/// Whether a kernel's buffer can lie over `tensor`. Copies to and from a device know no steps backwards or in place.
bool addressable(const Tensor &tensor, const Variant &variant);

/// Whether kernels can read or write a tensor where it is, its innermost axis dense.
bool usable_in_place(const Tensor &tensor, const Variant &variant);

/// `tensor` itself where that is so, or a copy.
OwnedTensor readable(const Tensor &tensor, const Variant &variant);

/// `count` items along `axis`, from `first` on.
Tensor slice(const Tensor &tensor, int axis, int64_t first, int64_t count);

/// One item along `axis`, without that axis.
Tensor item(const Tensor &tensor, int axis, int64_t i);

/// How cells are copied.
struct Packing {
    bool always = false;             ///< else only where strides or sizes are not a kernel's
    const Variant *widen = nullptr;  ///< to the type of arithmetic, by this kernel; wants `always`
};

/// Whether kernels can read [count, queries or keys, heads, channels] where it is, in whole vectors of channels.
bool rows_readable(const Tensor &rows, const Variant &variant);

/// Cells as CPU and GPU kernels read them: [count, keys, heads, channels].
struct Cells {
    OwnedTensor packed;  // unless used in place
    Tensor tensor;
    int32_t num_keys, key_step;
};

/// `value` is [count, keys, heads, channels]. A copy has its axes from slowest to fastest as `order` lists them, with zeros up
/// to `keys` and to a multiple of channels.
Cells prepare_cells(const Tensor &value, const Variant &variant, const Packing &packing, std::initializer_list<int> order,
                    int64_t keys);
/// Whether strides and sizes are a kernel's as they are.
bool cells_readable(const Tensor &value, const Variant &variant, int64_t keys);

/// Gradients of outputs as kernels read them: the same for [count, queries, heads, channels]; copied by heads.
struct Rows {
    OwnedTensor packed;
    Tensor tensor;
};

Rows prepare_rows(const Tensor &rows, const Variant &variant);

/// A tensor to write to: the caller's own, or scratch memory in its place that finish() copies to where it belongs.
class Output {
public:
    Output(const Tensor &target, const Variant &variant) : Output(target, usable_in_place(target, variant)) {}
    Output(const Tensor &target, bool in_place) : target_(target) {
        if (!in_place) {
            copy_ = allocate_like(target);
        }
    }
    const Tensor &tensor() const { return is_copy() ? copy_.tensor : target_; }
    void finish() const {
        if (is_copy()) {
            copy_elements(copy_.tensor, target_);
        }
    }

private:
    bool is_copy() const { return copy_.memory.data() != nullptr; }

    Tensor target_;
    OwnedTensor copy_;
};

/// [B, Q, M, L, P] as [B, Q, M * L * P], or [B, Q, M, L, P, 2] as [B, Q, M * L * P, 2]: the samples of all heads joined.
Tensor join_samples(const Tensor &tensor);
/// Whether that can be had in place, samples beside each other as kernels want them.
bool samples_joinable(const Tensor &tensor, const Variant &variant);

/// A tensor that kernels can use: the caller's memory where that will do, scratch memory otherwise.
OwnedTensor joined_input(const Tensor &tensor, const Variant &variant);
/// What that takes of a workspace, as JoinedOutput does.
int64_t joined_workspace(const Tensor &tensor, const Variant &variant);
/// The same to write to.
class JoinedOutput {
public:
    JoinedOutput(const Tensor &tensor, const Variant &variant) : output_(tensor, samples_joinable(tensor, variant)) {}
    Tensor tensor() const { return join_samples(output_.tensor()); }
    void finish() const { output_.finish(); }

private:
    Output output_;
};

}  // namespace deformkit
