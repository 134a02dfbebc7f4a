// Independent reference of deformable aggregation in float64, forward and backward, written from the formulas in the public
// header, one sample and channel at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/expected.h"

namespace deformkit::testing {

/// Dense, row-major, as the C interface describes it; numbers as they are stored.
struct DaReferenceInputs {
    int64_t B, K, C, A, P, N, S, G;
    std::vector<double> feature_maps, locations, weights;
    std::vector<int64_t> shapes, starts;
    std::vector<double> grad_output;  ///< of backward
};

/// `rounding`: half a unit in the last place of the arithmetic, relative. Locations have to stay clear of the lines between
/// cells.
Expected da_forward_reference(const DaReferenceInputs &in, double rounding);

struct DaGradients {
    Expected feature_maps, locations, weights;
};
DaGradients da_backward_reference(const DaReferenceInputs &in, double rounding);

}  // namespace deformkit::testing
