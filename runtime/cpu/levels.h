// The per-call table that kernels read instead of spatial_shapes and level_start_index: one column per head and sample.
#pragma once

#include <cstdint>
#include <functional>

#include "generators/shared/contract.h"
#include "runtime/system/memory.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// As the caller says.
struct Level {
    int64_t height, width, first_key;

    /// Cells that are all in [0, num_keys), or none at all.
    bool fits(int64_t num_keys) const;
    bool empty() const { return height <= 0 || width <= 0; }
};

struct KeyRange {
    int64_t first, count;
};

/// From the first level's first key to the last one's last, at least one; all keys where some level's are not all among them.
KeyRange used_keys(int64_t levels, const std::function<Level(int64_t)> &level, int64_t num_keys);

struct LevelTable {
    int32_t *rows = nullptr;  ///< [kLevelRows][pitch]
    int64_t columns = 0, pitch = 0;
    bool check_cells = false;  ///< some level has cells outside [0, num_keys): kernels must check every cell
    bool has_empty = false;    ///< some level has no cells

    int32_t &width(int64_t column) const { return rows[kWidth * pitch + column]; }
    int32_t &height(int64_t column) const { return rows[kHeight * pitch + column]; }
    int32_t &first_key(int64_t column) const { return rows[kFirstKey * pitch + column]; }
    /// `count` columns from `first` on.
    LevelTable part(int64_t first, int64_t count) const;
    /// What kernels read.
    Tensor tensor() const;
};

/// Room for a table of so many columns.
CallArray<int32_t> reserve_levels(CallMemory &memory, int64_t columns);

/// Columns for each of `heads`, for each of `levels`, for each of `points`.
LevelTable make_level_table(CallArray<int32_t> &memory, int64_t levels, const std::function<Level(int64_t)> &level,
                            int64_t heads, int64_t points, int64_t num_keys);

}  // namespace deformkit
