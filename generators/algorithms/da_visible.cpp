#include "generators/algorithms/da_visible.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;

namespace {

std::vector<Expr> with_first(const Expr &first, const std::vector<Expr> &rest) {
    std::vector<Expr> all = {first};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
}

}  // namespace

DaVisible::DaVisible(const std::function<Expr(int, const Expr &)> &location, const Expr &num_points,
                     const std::vector<Var> &outer)
    : num_points_(num_points) {
    const std::vector<Expr> at(outer.begin(), outer.end());
    const Expr u = location(0, p), w = location(1, p);
    const Expr zero = make_zero(u.type()), one = make_const(u.type(), 1);
    visible(with_first(p, at)) = cast<uint8_t>(strict_float(u > zero && u < one && w > zero && w < one));

    scan = RDom(0, num_points, "scan");
    slot(with_first(p, at)) = 0;
    slot(with_first(scan + 1, at)) = slot(with_first(scan, at)) + cast<int32_t>(visible(with_first(scan, at)));

    // Without a branch: what is not visible is overwritten by the next that is.
    order = RDom(0, num_points, "order");
    list(with_first(i, at)) = undef<int32_t>();
    list(with_first(unsafe_promise_clamped(slot(with_first(order, at)), 0, num_points - 1), at)) = order;
}

Expr DaVisible::count(const std::vector<Expr> &at) const {
    return slot(with_first(num_points_, at));
}

Expr DaVisible::point(const Expr &i, const std::vector<Expr> &at) const {
    return unsafe_promise_clamped(list(with_first(i, at)), 0, num_points_ - 1);
}

}  // namespace deformkit
