// How MSDA's grad_value is divided among threads.
//
// Scattering into the same cells from several threads would need atomics, and their order would show in the bits. Instead each
// task owns a slab: the cells of a group of levels, for one batch item and head, and for a part of the queries. Where a group
// has several parts, these are summed in order when all are done. The division depends on shapes alone.
#pragma once

#include <cstdint>
#include <vector>

#include "msda_inputs.h"

namespace deformkit {

/// Samples that fall into the same range of keys.
struct SlabGroup {
    int64_t first_sample, num_samples;  ///< of those of a query and head
    int64_t first_key, num_keys;
    int64_t parts = 1;  ///< of the queries
};

/// One group per level; one group for all where levels share keys or reach outside value. Levels without cells have none.
std::vector<SlabGroup> plan_slabs(const LevelTable &levels, const MsdaInputs &inputs);

}  // namespace deformkit
