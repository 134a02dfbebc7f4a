#include "da_forward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;

Expr group_of(const Func &group, const Expr &c, const DaInputs &in) {
    Expr result = group(c);
    for (int common : kCommonGroups) {
        result = select(in.channels_per_group == common, c / common, result);
    }
    return unsafe_promise_clamped(result, 0, in.num_groups - 1);
}

DaVisible::DaVisible(const DaInputs &in) {
    const Type type = compute_type(in.sample_locations.type());
    const Expr u = cast(type, in.sample_locations(0, f, v, b)), w = cast(type, in.sample_locations(1, f, v, b));
    const Expr zero = make_zero(type), one = make_const(type, 1);
    visible(f, v, b) = cast<uint8_t>(strict_float(u > zero && u < one && w > zero && w < one));

    scan = RDom(0, in.num_points, "scan");
    slot(p, n, v, b) = 0;
    slot(scan + 1, n, v, b) = slot(scan, n, v, b) + cast<int32_t>(visible(scan * in.num_cameras + n, v, b));

    // Without a branch: what is not visible is overwritten by the next that is.
    order = RDom(0, in.num_points, "order");
    list(p, n, v, b) = undef<int32_t>();
    list(unsafe_promise_clamped(slot(order, n, v, b), 0, in.num_points - 1), n, v, b) = order;
}

Expr DaVisible::count(const Expr &n, const Expr &v, const Expr &b) const {
    return slot(scan.x.extent(), n, v, b);
}

DaForward::DaForward(const DaInputs &in) : visible(in) {
    const Type type = compute_type(in.feature_maps.type()), bits = UInt(type.bits());
    const Expr zero = make_zero(type);

    group(c) = min(c / in.channels_per_group, in.num_groups - 1);
    {
        // Taps are computed by whole vectors of points.
        const Expr f = min(p, in.num_points - 1) * in.num_cameras + n, map = n * in.num_scales + s;
        const BilinearTap tap(cast(type, in.sample_locations(0, f, v, b)), cast(type, in.sample_locations(1, f, v, b)),
                              in.map_table(map, kWidth), in.map_table(map, kHeight));
        const SharedCorners shared = shared_corners(tap, in.map_table(map, kFirstKey), in.careful, in.num_keys - 1);
        std::vector<Expr> fields(kDaTapFields);
        for (int i = 0; i < 4; i++) {
            fields[kCornerPosition + i] = reinterpret(type, cast(bits, shared.key[i] * in.key_step));
            fields[kSharedWeight + i] = shared.weight[i];
        }
        taps(p, field, s, n, v, b) = mux(field, fields);
    }

    samples = RDom(0, in.num_points, 0, in.num_scales, 0, in.num_cameras, "samples");
    samples.where(samples.x < visible.count(samples.z, v, b));
    {
        const Expr scale = samples.y, camera = samples.z;
        const Expr point = unsafe_promise_clamped(visible.list(samples.x, camera, v, b), 0, in.num_points - 1);
        Expr sample = zero;
        for (int i = 0; i < 4; i++) {
            const auto tap = [&](int field) { return taps(point, field + i, scale, camera, v, b); };
            const Expr bits_of_position = cast<int32_t>(reinterpret(bits, tap(kCornerPosition)));
            const Expr position = unsafe_promise_clamped(bits_of_position, 0, in.max_position);
            const Expr product = tap(kSharedWeight) * cast(type, in.feature_maps(c, position, b));
            sample = i == 0 ? product : sample + product;
        }
        const Expr weight = in.weights(group_of(group, c, in), scale, point * in.num_cameras + camera, v, b);
        sum(c, v, b) = zero;
        sum(c, v, b) += cast(type, weight) * sample;
    }

    parts = RDom(0, in.num_parts, "parts");
    total(c, a, b) = zero;
    total(c, a, b) += sum(c, a * in.num_parts + parts, b);
}

}  // namespace deformkit
