// Independent reference of deformable aggregation in float64, forward and backward, written from the formulas in the public
// header, one sample and channel at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace deformkit::testing {

/// Dense, row-major, as the C interface describes it; numbers as they are stored.
struct DaReferenceInputs {
    int64_t B, K, C, A, P, N, S, G;
    std::vector<double> feature_maps, locations, weights;
    std::vector<int64_t> shapes, starts;
    std::vector<double> grad_output;  ///< of backward
};

/// A number, and how far rounding in the kernels' arithmetic may take a result from it.
struct Bounded {
    std::vector<double> values, tolerances;
};

/// `rounding`: half a unit in the last place of the arithmetic, relative. Locations have to stay clear of the lines between
/// cells.
Bounded da_forward_reference(const DaReferenceInputs &in, double rounding);

struct DaGradients {
    Bounded feature_maps, locations, weights;
};
DaGradients da_backward_reference(const DaReferenceInputs &in, double rounding);

}  // namespace deformkit::testing
