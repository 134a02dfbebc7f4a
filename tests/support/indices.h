// What spatial_shapes and level_start_index may say, meant or not. Tables for tests of all passes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/workloads.h"

namespace deformkit::testing {

struct Indices {
    std::string name;
    std::vector<int64_t> shapes, starts;
};

/// Three levels of 4 x 6, 3 x 3 and 2 x 5 cells in 43 keys, before something happens to them.
const std::vector<Level> &indexed_levels();

const std::vector<Indices> &unusual_indices();  ///< with a plain meaning: out of order, overlapping, beyond the tensor
const std::vector<Indices> &garbage_indices();  ///< nonsense that fits int32; products and sums of these numbers do not
const std::vector<Indices> &huge_indices();     ///< nonsense that does not fit int32

}  // namespace deformkit::testing
