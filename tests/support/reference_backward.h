// Independent reference of MSDA backward in float64, written from the formulas in the public header, one sample at a time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/support/types.h"

namespace deformkit::testing {

/// Inputs of MSDA backward, dense, row-major, shapes as in the public header; grad_output [B, Q, M, D].
struct MsdaBackwardInputs {
    int64_t B, K, M, D, Q, L, P;
    std::vector<double> value, locations, weights, grad_output;
    std::vector<int64_t> shapes, starts;
};

/// What a gradient has to be, and by how much arithmetic with rounding may miss it (before the result is rounded for type).
struct Expected {
    struct Number {
        double value, tolerance;
    };

    std::vector<double> value, tolerance;
    /// A location that may fall on either side of a line between cells has other gradients that are as right.
    std::map<int64_t, std::vector<Number>> alternatives;
    /// Dot products, in which infinities may meet with either sign depending on the order of summation: what is not finite has
    /// to be not finite, and no more is asked. Otherwise infinities and NaN are told apart.
    bool any_nonfinite = false;

    /// Whether the gradient at `i`, as stored, may be `got`.
    bool allows(int64_t i, double got, Type type) const;
};

struct MsdaBackwardExpected {
    Expected value, locations, weights;
};

/// Arithmetic whose results are off by at most `rounding`, relative, or `smallest_normal`.
MsdaBackwardExpected msda_backward_reference(const MsdaBackwardInputs &inputs, double rounding, double smallest_normal);

/// The arithmetic that operators use for this type. Float64 is the reference's own: then both may be off.
MsdaBackwardExpected msda_backward_reference(const MsdaBackwardInputs &inputs, Type type);

}  // namespace deformkit::testing
