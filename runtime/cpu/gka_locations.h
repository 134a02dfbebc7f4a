// Locations of geometric kernel attention, of any type of number, as kernels read them.
#pragma once

#include "runtime/tensor/layout.h"

namespace deformkit {

class StagedCellLocations {
public:
    StagedCellLocations() = default;
    StagedCellLocations(CallMemory &memory, const Tensor &locations, const Variant &variant);

    /// As in generators/algorithms/gka_passes.h: how kernels read the 32 bits.
    int32_t kind() const { return kind_; }
    /// [B, Q, M, L, P, 2] as 32 bits each, [B, Q, M * S, 2].
    Tensor load(const Tensor &locations) const;

private:
    int32_t kind_ = 0;
    Staged bits_;
};

}  // namespace deformkit
