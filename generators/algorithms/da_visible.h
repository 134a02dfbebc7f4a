// What forward and backward of deformable aggregation have in common: which samples take part.
//
// Axes, fastest first: d channel of a group, g group of channels, s scale, n camera, p point, v anchor, b batch item; xy.
// Channels lie group by group, each a multiple of kChannelMultiple.
#pragma once

#include <Halide.h>

#include <functional>
#include <vector>

#include "generators/shared/sampling.h"

namespace deformkit {

/// The points that take part: those strictly inside (0, 1). A sample that does not is left out before anything else is computed
/// for it. `outer` are the axes of everything but the points.
struct DaVisible {
    Halide::Var p{"p"}, i{"i"};
    Halide::RDom scan, order;

    Halide::Func visible{"visible"};  ///< (p, outer...)
    Halide::Func slot{"slot"};        ///< (p, outer...): how many of the points before p are visible; at p = P, of all
    Halide::Func list{"list"};        ///< (i, outer...): the i-th visible point

    /// `location(xy, p)`: a component of the location, in the type of arithmetic.
    DaVisible(const std::function<Halide::Expr(int, const Halide::Expr &)> &location, const Halide::Expr &num_points,
              const std::vector<Halide::Var> &outer);

    /// How many are visible, and the i-th of them, where the outer axes are at `at`.
    Halide::Expr count(const std::vector<Halide::Expr> &at) const;
    Halide::Expr point(const Halide::Expr &i, const std::vector<Halide::Expr> &at) const;

private:
    Halide::Expr num_points_;
};

}  // namespace deformkit
