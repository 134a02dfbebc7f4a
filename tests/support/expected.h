// What a result has to be, as far as rounding leaves it open.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tests/support/types.h"

namespace deformkit::testing {

/// Numbers, and by how much arithmetic with rounding may miss each before it is rounded to its type.
struct Expected {
    struct Number {
        double value, tolerance;
    };

    std::vector<double> values, tolerances;
    /// Elsewhere as right: a location on a line between cells has the gradients of either side.
    std::map<int64_t, std::vector<Number>> alternatives;
    /// Dot products, in which infinities may meet with either sign depending on the order of summation: what is not finite has
    /// to be not finite, and no more is asked. Otherwise infinities and NaN are told apart.
    bool any_nonfinite = false;

    Expected() = default;
    explicit Expected(int64_t count) : values(count), tolerances(count) {}
    /// Whether the result at `i`, as stored, may be `got`.
    bool allows(int64_t i, double got, Type type) const;
    /// The results of another batch element, which follow.
    void append(const Expected &next);
};

/// Whether `result` is what some number within `tolerance` of `expected` is rounded to. NaN and infinities have to agree.
bool agrees(Type type, double result, double expected, double tolerance);

}  // namespace deformkit::testing
