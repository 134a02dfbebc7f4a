// Locations in cells, of whatever type, as the 32 bits that kernels read.
#pragma once

#include <cstdint>

#include "runtime/tensor/pack.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

struct CellLocations {
    OwnedTensor bits;  ///< of type int32
    int32_t kind;      ///< LocationKind of generators/gka.h
};

/// In place for float32 and int32. Other types are truncated, and what is too large for 32 bits is the largest that fits: no
/// map is as large.
CellLocations prepare_cell_locations(const Tensor &locations);

}  // namespace deformkit
