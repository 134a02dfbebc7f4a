#include "generators/algorithms/da_forward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

namespace {

DaVisible visible_of(const DaForwardInputs &in, const Var &n, const Var &v, const Var &b) {
    const auto location = [&](int xy, const Expr &p) {
        return cast(compute_type(in.sample_locations.type()), in.sample_locations(xy, p * in.num_cameras + n, v, b));
    };
    return DaVisible(location, in.num_points, {n, v, b});
}

}  // namespace

DaForward::DaForward(const DaForwardInputs &in) : visible(visible_of(in, n, v, b)) {
    const Type type = compute_type(in.feature_maps.type());
    {
        // Computed by whole vectors of points: the last is read again.
        const Expr f = min(p, in.num_points - 1) * in.num_cameras + n, map = n * in.num_scales + s;
        const BilinearTap tap(cast(type, in.sample_locations(0, f, v, b)), cast(type, in.sample_locations(1, f, v, b)),
                              in.map_table(map, kWidth), in.map_table(map, kHeight));
        const TouchedCells cells = touched_cells(tap, in.map_table(map, kFirstKey), in.num_keys, in.check_cells);
        taps(p, field, s, n, v, b) = mux(field, cell_fields(cells, in.key_step));
    }

    samples = RDom(0, in.num_points, 0, in.num_scales, 0, in.num_cameras, "samples");
    {
        const Expr scale = samples.y, camera = samples.z;
        const Expr has_cells = in.map_table(camera * in.num_scales + scale, kWidth) > 0;
        samples.where(samples.x < select(has_cells, visible.count({camera, v, b}), 0));
        const Expr point = visible.point(samples.x, {camera, v, b});
        const auto tap = [&](int field) { return Expr(taps(point, field, scale, camera, v, b)); };
        samples.where(!in.check_cells || tap(kCellWeight) >= 0);
        Expr sample;
        for (int c = 0; c < 4; c++) {
            const Expr position = unsafe_promise_clamped(decode_position(tap(kPosition + c)), 0, in.max_position);
            const Expr product = tap(kCellWeight + c) * cast(type, in.feature_maps(d, g, position, b));
            sample = c == 0 ? product : sample + product;
        }
        sum(d, g, v, b) = make_zero(type);
        sum(d, g, v, b) += cast(type, in.weights(g, scale, point * in.num_cameras + camera, v, b)) * sample;
    }

    parts = RDom(0, in.num_parts, "parts");
    total(d, g, a, b) = make_zero(type);
    total(d, g, a, b) += sum(d, g, a * in.num_parts + parts, b);
}

}  // namespace deformkit
