// Feature maps and their table, as the kernels of deformable aggregation read them.
#pragma once

#include "runtime/interface/da.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

class DaCells {
public:
    DaCells() = default;
    /// Room for `count` batch items.
    DaCells(CallMemory &memory, const DaInputs &a, int64_t count);

    /// A column for each map, cameras' scales one after the other.
    LevelTable make_table(const DaInputs &a);
    Cells load(const Tensor &feature_maps) const { return cells_.load(feature_maps); }

private:
    CallArray<int32_t> table_;
    StagedCells cells_;
};

/// Batch items to take at once, so that copies stay within `bytes` and strides within 32 bits.
int64_t batches_at_once(const DaInputs &a, const Tensor &output, int64_t bytes);

}  // namespace deformkit
