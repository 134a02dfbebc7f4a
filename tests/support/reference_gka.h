// Independent reference of geometric kernel attention in float64, forward and backward, written from the formulas in the public
// header, one sample and channel at a time.
#pragma once

#include "tests/support/reference_da.h"

namespace deformkit::testing {

/// Dense, row-major, as the C interface describes it; numbers as they are stored.
struct GkaReferenceInputs {
    int64_t B, K, M, D, Q, L, P;
    std::vector<double> value, locations, weights;
    std::vector<int64_t> shapes, starts;
    std::vector<double> grad_output;  ///< of backward
};

Bounded gka_forward_reference(const GkaReferenceInputs &in, double rounding);

struct GkaGradients {
    Bounded value, weights;
};
GkaGradients gka_backward_reference(const GkaReferenceInputs &in, double rounding);

}  // namespace deformkit::testing
