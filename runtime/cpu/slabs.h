// How the gradient of a feature map is divided among threads.
//
// Scattering into the same cells from several threads would need atomics, and their order would show in the bits. Instead each
// task owns a slab: the cells of a group of maps, for one batch item and some heads. Where there are more threads than slabs,
// a slab holds a part of the channels. Whatever the division, a cell's channel gains the same in the same order.
#pragma once

#include <cstdint>

#include "runtime/cpu/levels.h"
#include "runtime/system/memory.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

struct Variant;

/// Maps whose keys overlap: their gradients are added up one after the other, in the same memory.
struct MapGroup {
    KeyRange keys;
    const int64_t *first_map, *last_map;  ///< maps from and to, in order

    const int64_t *begin() const { return first_map; }
    const int64_t *end() const { return last_map; }
    int64_t size() const { return last_map - first_map; }
};

/// The groups of all maps that have cells, those with most to do first; one group of all keys where cells have to be checked.
class MapGroups {
public:
    MapGroups() = default;
    /// Room for the groups of so many maps.
    MapGroups(CallMemory &memory, int64_t maps);

    /// Every `step` columns of the table, `columns` in all, are a map.
    void make(const LevelTable &table, int64_t columns, int64_t step, int64_t num_keys);

    const MapGroup &operator[](int64_t i) const { return groups_[i]; }
    const MapGroup *begin() const { return groups_.begin(); }
    const MapGroup *end() const { return groups_.end(); }
    int64_t count() const { return groups_.size(); }
    /// Keys that no group covers have gradient zero.
    void clear_gaps(const Tensor &gradient) const;

private:
    CallArray<int64_t> maps_;
    CallArray<MapGroup> groups_;
    CallArray<KeyRange> gaps_;
};

/// Time for one sample: to find its four cells, and to add to a vector of channels of each. In any unit.
struct ScatterCost {
    int64_t find_cells, add_vector;
};

/// Channels of a slab: all of them, or a part where `threads` that share so many `slabs` of all channels end sooner with more.
int64_t channels_of_slab(int64_t channels, int64_t slabs, int64_t threads, const ScatterCost &cost);

/// Memory in which one task adds up gradient [cells, heads, D].
///
/// Cleared and stored by host code, not by the kernel that scatters: several maps may add to one slab, and Halide cannot write
/// past the caches. Without that, MSDA backward takes 1.05x the time on mask2former_1024, 1.02x on bevformer_tsa and 1.00x on
/// detr_encoder (2-core EPYC, AVX-512, float32).
class Slab {
public:
    /// The gradient itself, which its owner has cleared, or else zeros.
    Slab(const Tensor &gradient, bool in_place);

    /// [heads, cells, D'] in the type of arithmetic.
    const Tensor &tensor() const { return tensor_; }
    /// To the gradient, rounded once, by the kernel `narrow` where types differ; `stream` as in copy_block().
    void store(const Variant *narrow, bool stream) const;

private:
    Tensor gradient_, tensor_;
    Scratch memory_;
};

/// Whether kernels can scatter straight into a gradient [batches, cells, heads, D].
bool can_be_slab(const Tensor &gradient);

}  // namespace deformkit
