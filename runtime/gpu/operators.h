// The operators on tensors in a device's memory, and what they have in common: how kernels take tensors, as docs/gpu.md says.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>

#include "runtime/gpu/call.h"
#include "runtime/interface/da.h"
#include "runtime/interface/msda.h"

namespace deformkit {

void run(const MsdaForwardCall &call, const Queue &queue);
void run(const MsdaBackwardCall &call, const Queue &queue);
void run(const DaForwardCall &call, const Queue &queue);
void run(const DaBackwardCall &call, const Queue &queue);
void run(const GkaForwardCall &call, const Queue &queue);
void run(const GkaBackwardCall &call, const Queue &queue);

/// What a block of threads has of its own memory on any device, but for what a kernel takes beside what its tiles say.
constexpr int64_t kSharedBytes = 46 << 10;
/// Threads along the axis of queries, at most.
constexpr int64_t kMostTile = 64;
constexpr int64_t kMostThreads = 1024;  // of a block
/// Queries of a block of threads, of which `threads` take one, with so many bytes of the block's own memory.
int64_t query_tile(int64_t block_threads, int64_t threads, int64_t bytes);
/// Threads that add a query's products, of neighbouring channels, to a map's gradient.
constexpr int64_t kThreadsOfSum = 8;

/// Of a row of channels.
int64_t lanes_of(const Tensor &tensor);
/// The largest divisor that is not more than `most`.
int64_t divisor_of(int64_t number, int64_t most);

/// Channels in words of 32 bits: float32, or two numbers of 16 bits.
Tensor as_words(const Tensor &tensor);
/// Single numbers as kernels take them: those of float16 and bfloat16 are only bits.
Tensor as_bits(const Tensor &tensor);
/// Indices as int32, with one more axis of the words of each.
Tensor as_index_words(const Tensor &tensor);
/// [..., 2] as one element of twice the size, and whether that can be had where the tensor is.
Tensor as_pairs(const Tensor &tensor);
bool has_pairs(const Tensor &tensor);

/// Rows of channels [items, rows, heads, channels] by their distance in lanes: so a row's number becomes an address by one
/// multiplication. The axis counts lanes, yet keeps its extent: positions go up to (rows - 1) * step, which the kernel is promised to
/// be in range, and Halide refuses buffers whose extents have a product of 2^31.
struct LaneCells {
    static constexpr int kAxis = 1;
    Tensor words;
    int64_t step;

    explicit LaneCells(const Tensor &tensor);
};

/// A map's gradient. Summed in float32 by atomic additions: in place, or in memory of the call, from where it is rounded or copied.
/// Where this thread wants the same bits each time, another kernel writes it as it is.
class MapGradient {
public:
    /// `operation` adds up in any order, `in_order` runs in its place; throws where there is no such kernel.
    MapGradient(GpuCall &gpu, const Tensor &gradient, const char *operation, const char *in_order);
    const Variant &row() const { return row_; }  ///< of `operation`
    const Variant &kernel() const { return in_order_ != nullptr ? *in_order_ : row_; }
    bool is_in_order() const { return in_order_ != nullptr; }
    /// What the kernel writes to.
    Tensor target() const;
    /// When it is in the stream.
    void finish() const;

private:
    GpuCall &gpu_;
    const Variant &row_, *in_order_;
    const Tensor *written_, *rounded_ = nullptr;
};

/// nullptr where it is not wanted or empty.
const Tensor *wanted_of(const std::optional<Tensor> &gradient);
/// Whether this thread wants sums in the same order each time.
bool deterministic();

/// Items of a gradient, in `part`; nullptr where that is not wanted.
const Tensor *part_of(const Tensor *gradient, int64_t first, int64_t count, Tensor &part);

/// Channels of a head or group, the last axis, in pieces: of each, a thread takes 16 bytes.
void for_channels(const Tensor &rows, const std::function<void(int64_t first, int64_t count)> &run);
/// Calls with ranges of the first axis within which all of these tensors, of which some may be nullptr, have less than 2^31
/// elements: kernels' indices have 32 bits. Throws where one item has more.
void for_items(std::initializer_list<const Tensor *> tensors, const std::function<void(int64_t first, int64_t count)> &run);

}  // namespace deformkit
