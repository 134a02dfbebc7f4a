#include "generators/algorithms/da_backward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

namespace {

/// The points on one camera; `v` is the anchor.
template <typename Inputs>
DaVisible visible_of(const Inputs &in, const Var &v) {
    const auto location = [&](int xy, const Expr &p) {
        return cast(compute_type(in.sample_locations.type()), in.sample_locations(xy, p, v));
    };
    return DaVisible(location, in.num_points, {v});
}

/// Taps are computed by whole vectors of points: the last is read again.
template <typename Inputs>
BilinearTap tap_of(const Inputs &in, const Expr &map, const Expr &p, const Expr &v) {
    const Type type = compute_type(in.sample_locations.type());
    const Expr point = min(p, in.num_points - 1);
    return BilinearTap(cast(type, in.sample_locations(0, point, v)), cast(type, in.sample_locations(1, point, v)),
                       in.map_table(map, kWidth), in.map_table(map, kHeight));
}

}  // namespace

DaBackwardSamples::DaBackwardSamples(const DaBackwardSamplesInputs &in) : visible(visible_of(in, v)) {
    const Type type = compute_type(in.feature_maps.type());
    const Expr zero = make_zero(type);
    {
        const TouchedCells cells = touched_cells(tap_of(in, s, p, v), in.map_table(s, kFirstKey), in.num_keys, in.check_cells);
        std::vector<Expr> fields = cell_fields(cells, in.key_step);
        fields.resize(kFields);
        for (int k = 0; k < 4; k++) {
            fields[kAcross + k] = cells.across[k] * cast(type, in.map_table(s, kWidth));
            fields[kDown + k] = cells.down[k] * cast(type, in.map_table(s, kHeight));
        }
        taps(p, field, s, v) = mux(field, fields);
    }

    channels = RDom(0, in.num_channels, "channels");
    {
        const Expr field = taps(visible.point(i, {v}), kPosition + c, s, v);
        const Expr position = unsafe_promise_clamped(decode_position(field), 0, in.max_position);
        dot(g, c, i, s, v) = zero;
        dot(g, c, i, s, v) += cast(type, in.grad_output(channels, g, v)) * cast(type, in.feature_maps(channels, g, position));
    }

    samples = RDom(0, in.num_points, 0, in.num_scales, "samples");
    samples.where(samples.x < visible.count({v}));
    {
        const Expr scale = samples.y, point = visible.point(samples.x, {v});
        const auto blend = [&](int of) {
            Expr total = zero;
            for (int k = 0; k < 4; k++) {
                const Expr product = taps(point, of + k, scale, v) * dot(g, k, samples.x, scale, v);
                total = k == 0 ? product : total + product;
            }
            return total;
        };
        const Expr counts = taps(point, kCellWeight, scale, v) >= 0;
        const Expr weight = cast(type, in.weights(g, scale, point, v));
        grads(g, s, p, v) = Tuple(undef(type), undef(type), undef(type));
        grads(g, scale, point, v) =
            Tuple(select(counts, blend(kCellWeight), zero), select(counts, weight * blend(kAcross), zero),
                  select(counts, weight * blend(kDown), zero));
    }

    const Expr is_visible = visible.visible(p, v) != 0;
    scales = RDom(0, in.num_groups, 0, in.num_scales, "scales");
    scales.where(is_visible);
    location(p, v) = Tuple(zero, zero);
    const Tuple share = grads(scales.x, scales.y, p, v);
    location(p, v) = Tuple(location(p, v)[0] + share[1], location(p, v)[1] + share[2]);
    grad_location = select(xy == 0, location(p, v)[0], location(p, v)[1]);
    grad_weight = select(is_visible, grads(g, s, p, v)[0], zero);
}

DaBackwardValue::DaBackwardValue(const DaBackwardValueInputs &in) : visible(visible_of(in, v)), slab(in.slab) {
    const Type type = compute_type(in.grad_output.type());
    {
        const TouchedCells cells = touched_cells(tap_of(in, 0, p, v), in.map_table(0, kFirstKey), in.num_cells, in.check_cells);
        taps(p, field, v) = mux(field, cell_fields(cells, 1));
    }

    slab(d, g, cell) = undef(type);

    corners = RDom(0, 4, 0, in.num_points, 0, in.num_anchors, "corners");
    {
        const Expr anchor = corners.z;
        corners.where(corners.y < select(in.map_table(0, kWidth) > 0, visible.count({anchor}), 0));
        const Expr point = visible.point(corners.y, {anchor});
        corners.where(!in.check_cells || taps(point, kCellWeight, anchor) >= 0);
        const auto tap = [&](int of) { return Expr(taps(point, of + corners.x, anchor)); };
        const Expr target = unsafe_promise_clamped(decode_position(tap(kPosition)), 0, in.num_cells - 1);
        const Expr gradient = cast(type, in.weights(g, point, anchor)) * cast(type, in.grad_output(d, g, anchor));
        slab(d, g, target) += tap(kCellWeight) * gradient;
    }
}

}  // namespace deformkit
