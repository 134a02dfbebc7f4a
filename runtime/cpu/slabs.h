// How the gradient of a feature map is divided among threads.
//
// Scattering into the same cells from several threads would need atomics, and their order would show in the bits. Instead each
// task owns a slab: the cells of a group of levels, for one batch item and some heads. Where there are more threads than slabs,
// a slab holds a part of the channels. Whatever the division, a cell's channel gains the same in the same order.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/cpu/levels.h"
#include "runtime/system/memory.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Samples that fall into the same cells.
struct SlabGroup {
    int64_t first_sample, num_samples;  ///< of those of a query and head
    int64_t first_key, num_keys;
};

/// Maps whose keys overlap: their gradients are added up one after the other, in the same memory.
struct MapGroup : SlabGroup {
    std::vector<int64_t> maps;  ///< columns of the table
};

/// The groups of a table with a column for each map, those with most keys first; one group for all where the table is careful.
/// Maps without cells are in none.
std::vector<MapGroup> group_maps(const LevelTable &table, int64_t keys);

/// One group for each level of `points` of a head's `samples`; one group for all where levels share keys or reach outside.
/// Levels without cells have none. Those with most to do come first.
ScratchVector<SlabGroup> plan_slabs(const LevelTable &levels, int64_t points, int64_t samples, int64_t keys);
/// The most that it takes of a workspace, whatever the levels.
int64_t plan_workspace(int64_t levels);

/// Channels of a slab: all of them, or a part where `threads` that share so many `slabs` of all channels end sooner with more.
int64_t channels_of_slab(int64_t channels, int64_t slabs, int64_t threads);

/// Memory in which one task adds up gradient [cells, heads, D].
class Slab {
public:
    /// The gradient itself, which its owner has cleared, or else zeros, of `spare_cells` more than that has.
    Slab(const Tensor &gradient, bool in_place, int64_t spare_cells = 0);

    /// [heads, cells, D'] in the type of arithmetic.
    const Tensor &tensor() const { return tensor_; }
    /// To the gradient, rounded once; `stream` as in copy_block().
    void store(bool stream) const;

private:
    Tensor gradient_, tensor_;
    Scratch memory_;
};

/// What a slab of one head takes of a workspace.
int64_t slab_workspace(int64_t keys, int64_t channels, DLDataType dtype);

/// Whether kernels can scatter straight into a gradient [batches, cells, heads, D].
bool can_be_slab(const Tensor &gradient);

/// Keys that no group covers have gradient zero.
void clear_gaps(const std::vector<MapGroup> &groups, const Tensor &gradient);
void clear_gaps(ScratchVector<SlabGroup> groups, const Tensor &gradient);

}  // namespace deformkit
