// What passes do with rows of channels, whatever the operator.
#pragma once

#include <Halide.h>

namespace deformkit {

/// The bits of the largest magnitude among all elements, as magnitude_bits gives them.
struct RowsMagnitude {
    Halide::Var x{"x"};
    Halide::RDom elements;
    Halide::Func largest{"largest"};
    Halide::Expr result;  ///< of (x)

    RowsMagnitude(const Halide::Func &input, const Halide::Expr &channels, const Halide::Expr &heads,
                  const Halide::Expr &queries);
};

}  // namespace deformkit
