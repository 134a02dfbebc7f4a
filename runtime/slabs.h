// Gradients of cells: memory to add them up in, and the way from there to where they belong.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "levels.h"
#include "memory.h"
#include "tensor.h"

namespace deformkit {

/// Memory in the type of arithmetic, uninitialised: [count, parts, heads, cells, channels], channels rounded up to what kernels
/// write.
struct Slabs {
    Tensor tensor;
    Scratch memory;
};

/// Maps whose keys overlap: their gradients are added up one after the other, in the same memory.
struct KeyGroup {
    int64_t first_key, num_keys;
    std::vector<int64_t> maps;  ///< columns of the table
};

/// The groups of a table with a column for each map, the largest first; one group for all where the table is careful. Maps
/// without cells are in none.
std::vector<KeyGroup> group_maps(const LevelTable &table, int64_t keys);

/// `heads_outside`: the cells of a head follow each other; otherwise the heads of a cell do. The shape is the same.
Slabs allocate_slabs(DLDataType storage, int64_t count, int64_t parts, int64_t heads, int64_t cells, int64_t channels,
                     bool heads_outside);

/// Adds up the parts, in their order, rounds once, and writes keys first_key to first_key + num_keys of `gradient`,
/// [count, keys, heads, channels]; its channels are dense.
void reduce_slabs(const Tensor &slabs, int64_t first_key, int64_t num_keys, const Tensor &gradient);

/// Sets to zero the keys of `gradient` that lie in none of `ranges` (first key, number of keys), which do not overlap.
void clear_gaps(std::vector<std::pair<int64_t, int64_t>> ranges, const Tensor &gradient);

}  // namespace deformkit
