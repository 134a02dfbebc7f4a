// Independent reference of geometric kernel attention in float64, forward and backward, written from the formulas in the public
// header, one sample and channel at a time.
#pragma once

#include "tests/support/reference_backward.h"

namespace deformkit::testing {

Expected gka_forward_reference(const MsdaReferenceInputs &in, double rounding);

struct GkaGradients {
    Expected value, weights;
};
GkaGradients gka_backward_reference(const MsdaReferenceInputs &in, double rounding);

}  // namespace deformkit::testing
