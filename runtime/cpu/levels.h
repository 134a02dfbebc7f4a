// The per-call table that kernels read instead of spatial_shapes and level_start_index: one column per head and sample.
#pragma once

#include <cstdint>

#include "runtime/system/memory.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Width and height of a level without cells: no position lies between -1 and -1.
constexpr int32_t kNoExtent = -1;

struct LevelTable {
    ScratchVector<int32_t> rows;  ///< [3][columns]: widths, heights, first keys
    int64_t columns = 0;
    bool careful = false;  ///< some level has cells outside [0, num_keys): kernels must check every cell
};

/// Columns for each of `heads`, for each level, for each of `points`.
LevelTable make_level_table(const Tensor &spatial_shapes, const Tensor &level_start_index, int64_t heads, int64_t points,
                            int64_t num_keys);

/// `count` columns from `first` on, with keys counted from `first_key`.
LevelTable columns_of(const LevelTable &table, int64_t first, int64_t count, int64_t first_key);

/// Whether some column has no cells.
bool has_empty(const LevelTable &table);

/// The table as the tensor that kernels read.
Tensor table_tensor(LevelTable &levels);

}  // namespace deformkit
