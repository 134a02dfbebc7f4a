// Independent reference of MSDA backward in float64, written from the formulas in the public header, one sample at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/expected.h"
#include "tests/support/types.h"

namespace deformkit::testing {

/// Of MSDA and geometric kernel attention: dense, row-major, as the C interface describes it; numbers as they are stored.
struct MsdaReferenceInputs {
    int64_t B, K, M, D, Q, L, P;
    std::vector<double> value, locations, weights;
    std::vector<int64_t> shapes, starts;
    std::vector<double> grad_output;  ///< [B, Q, M, D], of backward
};

struct MsdaBackwardExpected {
    Expected value, locations, weights;
};

/// Arithmetic whose results are off by at most `rounding`, relative, or `smallest_normal`.
MsdaBackwardExpected msda_backward_reference(const MsdaReferenceInputs &inputs, double rounding, double smallest_normal);

/// The arithmetic that operators use for this type. Float64 is the reference's own: then both may be off.
MsdaBackwardExpected msda_backward_reference(const MsdaReferenceInputs &inputs, Type type);

}  // namespace deformkit::testing
