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

/// The same numbers in the type of arithmetic.
struct RowsWiden {
    Halide::Var d{"d"}, m{"m"}, cell{"cell"};
    Halide::Expr result;  ///< of (d, m, cell)

    explicit RowsWiden(const Halide::Func &wide) : result(wide(d, m, cell)) {}
};

/// The sum of the parts of a gradient, in their order.
struct RowsReduce {
    Halide::Var d{"d"}, m{"m"}, cell{"cell"};
    Halide::RDom parts;
    Halide::Func sum{"sum"};
    Halide::Expr result;  ///< of (d, m, cell)

    RowsReduce(const Halide::Func &slabs, const Halide::Expr &num_parts);
};

}  // namespace deformkit
