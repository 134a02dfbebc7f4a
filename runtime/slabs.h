// How the gradient of a feature map is divided among threads.
//
// Scattering into the same cells from several threads would need atomics, and their order would show in the bits. Instead each
// task owns a slab: the cells of a group of levels, for one batch item and head, and for a part of the queries. Where a group
// has several parts, these are summed in order when all are done. The division depends on shapes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "levels.h"
#include "memory.h"
#include "tensor.h"

namespace deformkit {

/// Samples that fall into the same range of keys.
struct SlabGroup {
    int64_t first_sample, num_samples;  ///< of those of a query and head
    int64_t first_key, num_keys;
    int64_t parts = 1;  ///< of the queries
};

/// Maps whose keys overlap: their gradients are added up one after the other, in the same memory.
struct MapGroup : SlabGroup {
    std::vector<int64_t> maps;  ///< columns of the table
};

/// The groups of a table with a column for each map, those with most keys first; one group for all where the table is careful.
/// Maps without cells are in none.
std::vector<MapGroup> group_maps(const LevelTable &table, int64_t keys);

/// What a plan depends on, beside the levels.
struct SlabProblem {
    int64_t batches, heads, queries, samples, keys;
};

/// One group per level of `points` samples; one group for all where levels share keys or reach outside. Levels without cells
/// have none. Those with most to do come first.
ScratchVector<SlabGroup> plan_slabs(const LevelTable &levels, int64_t points, const SlabProblem &n);

/// The slabs of a group: [batches, parts, heads, cells, channels] in the type of arithmetic.
struct Slabs {
    Tensor tensor;
    Scratch memory;
};

/// Whether kernels can scatter straight into a gradient [batches, cells, heads, D].
bool can_be_slab(const Tensor &gradient);

Slabs allocate_slabs(const SlabGroup &group, int64_t batches, int64_t heads, int64_t channels, DLDataType dtype);

/// Sums the parts of slabs [parts, heads, cells, channels] into a gradient [cells, heads, D], on this thread.
void reduce_block(const Tensor &slabs, const Tensor &gradient);

/// Sums the parts of each batch item's slabs into gradient [batches, K, heads, D].
void reduce_slabs(const Slabs &slabs, const SlabGroup &group, const Tensor &gradient);

/// Keys that no group covers have gradient zero.
void clear_gaps(const std::vector<MapGroup> &groups, const Tensor &gradient);
void clear_gaps(ScratchVector<SlabGroup> groups, const Tensor &gradient);

/// The most that plan_slabs, allocate_slabs for `batches` items of all groups, and clear_gaps take of a workspace, whatever the
/// levels. Only groups of several parts count.
int64_t slabs_workspace(int64_t levels, int64_t points, const SlabProblem &n, int64_t batches, int64_t channels,
                        DLDataType dtype);
/// What a slab of one part and head takes.
int64_t one_slab_workspace(int64_t keys, int64_t channels, DLDataType dtype);

}  // namespace deformkit
