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
    const Type type = compute_type(in.feature_maps.type()), bits = UInt(type.bits());
    {
        // Computed by whole vectors of points: the last is read again.
        const Expr f = min(p, in.num_points - 1) * in.num_cameras + n, map = n * in.num_scales + s;
        const BilinearTap tap(cast(type, in.sample_locations(0, f, v, b)), cast(type, in.sample_locations(1, f, v, b)),
                              in.map_table(map, kWidth), in.map_table(map, kHeight));
        const SharedCorners shared = shared_corners(tap, in.map_table(map, kFirstKey), in.check_cells, in.num_keys - 1);
        std::vector<Expr> fields(kFields);
        for (int c = 0; c < 4; c++) {
            fields[kPosition + c] = reinterpret(type, cast(bits, shared.key[c] * in.key_step));
            fields[kWeight + c] = shared.weight[c];
        }
        taps(p, field, s, n, v, b) = mux(field, fields);
    }

    samples = RDom(0, in.num_points, 0, in.num_scales, 0, in.num_cameras, "samples");
    {
        const Expr scale = samples.y, camera = samples.z;
        samples.where(samples.x < visible.count({camera, v, b}));
        const Expr point = visible.point(samples.x, {camera, v, b});
        Expr sample;
        for (int c = 0; c < 4; c++) {
            const auto tap = [&](int of) { return taps(point, of + c, scale, camera, v, b); };
            const Expr position = unsafe_promise_clamped(cast<int32_t>(reinterpret(bits, tap(kPosition))), 0, in.max_position);
            const Expr product = tap(kWeight) * cast(type, in.feature_maps(d, g, position, b));
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
