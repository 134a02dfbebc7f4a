#include "generators/algorithms/gka_passes.h"

#include <cstdint>

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;

Expr cell_along(const Expr &location) {
    const Type type = location.type();
    if (!type.is_float()) {
        return cast<int32_t>(max(type.bits() > 32 ? min(location, make_const(type, INT32_MAX)) : location, make_zero(type)));
    }
    // The largest number of its type that is an int32.
    const Expr most = make_const(type, type.bits() == 64 ? INT32_MAX : 2147483520.0);
    const Expr finite = magnitude_bits(location) < non_finite_bits(type), zero = make_zero(type);
    const Expr truncated = cast<int32_t>(strict_float(max(min(select(finite, location, zero), most), zero)));
    return select(!finite, INT32_MIN, strict_float(location > most), INT32_MAX, truncated);
}

Expr GkaSamples::key(const Var &s, const Var &m, const Var &q, const Var &b) const {
    const Expr width = level_table(s, kWidth), height = level_table(s, kHeight), first_key = level_table(s, kFirstKey);
    Expr cell[2], is_somewhere[2];
    for (int xy : {0, 1}) {
        const Expr bits = sampling_locations(xy, s, m, q, b);
        const Expr along = select(location_kind == kFloatLocation, cell_along(reinterpret<float>(bits)), bits);
        is_somewhere[xy] = location_kind == kIntLocation || along != INT32_MIN;
        cell[xy] = max(min(along, (xy == 0 ? width : height) - 1), 0);
    }
    const Expr wide = cast<int64_t>(first_key) + cast<int64_t>(cell[1]) * width + cell[0];
    const Expr is_cell = !check_cells || (width > 0 && wide >= 0 && wide < num_keys);
    const Expr checked_key = cast<int32_t>(select(is_cell, wide, cast<int64_t>(0)));
    return select(is_somewhere[0] && is_somewhere[1] && is_cell,
                  select(check_cells, checked_key, first_key + cell[1] * width + cell[0]), -1);
}

Expr GkaSamples::add(const Expr &sum, const Expr &product) const {
    return fused ? sum + product : ordered_add(sum, product);
}

GkaForward::GkaForward(const GkaCells &in, const Func &attention_weights) {
    const Type type = compute_type(in.value.type()), bits = Int(type.bits());
    const Expr key = in.key(s, m, q, b);
    taps(s, field, m, q, b) = mux(field, {reinterpret(type, cast(bits, select(key >= 0, key * in.key_step, -1))),
                                          cast(type, attention_weights(s, m, q, b))});
    const auto position = [&](const Expr &sample) {
        return cast<int32_t>(reinterpret(bits, taps(sample, kPosition, m, q, b)));
    };
    all_samples = RDom(0, in.num_samples, "all_samples");
    lowest(m, q, b) = 0;
    lowest(m, q, b) = min(lowest(m, q, b), position(all_samples));

    const auto product = [&](const Expr &sample) {
        const Expr safe = unsafe_promise_clamped(position(sample), 0, in.max_position);
        return taps(sample, kWeight, m, q, b) * in.value(d, m, safe, b);
    };
    sum(d, m, q, b) = make_zero(type);
    samples = RDom(0, in.num_samples, "samples");
    samples.where(lowest(m, q, b) >= 0);
    sum(d, m, q, b) = in.add(sum(d, m, q, b), product(samples));
    some_samples = RDom(0, in.num_samples, "some_samples");
    some_samples.where(lowest(m, q, b) < 0);
    some_samples.where(position(some_samples) >= 0);
    sum(d, m, q, b) = in.add(sum(d, m, q, b), product(some_samples));
}

GkaBackwardSamples::GkaBackwardSamples(const GkaCells &in, const Func &grad_output, const Expr &num_channels, int num_lanes) {
    const Type type = compute_type(in.value.type());
    const Expr key = in.key(s, m, q, b);
    positions(s, m, q, b) = select(key >= 0, key * in.key_step, -1);

    vectors = RDom(0, num_channels / num_lanes, "vectors");
    const Expr position = unsafe_promise_clamped(max(positions(s, m, q, b), 0), 0, in.max_position);
    const Expr channel = vectors * num_lanes + lane;
    partial(lane, s, m, q, b) = make_zero(type);
    partial(lane, s, m, q, b) =
        in.add(partial(lane, s, m, q, b), grad_output(channel, m, q, b) * in.value(channel, m, position, b));
    lanes = RDom(0, num_lanes, "lanes");
    dot(s, m, q, b) = make_zero(type);
    dot(s, m, q, b) += partial(lanes, s, m, q, b);
    grad_weight = select(positions(s, m, q, b) >= 0, dot(s, m, q, b), make_zero(type));
}

GkaBackwardValue::GkaBackwardValue(const GkaBackwardValueInputs &in, const Func &slab, bool holds_zeros) : slab(slab) {
    const Type type = compute_type(in.grad_output.type());
    cells(s, m, q, b) = in.key(s, m, q, b);

    samples = RDom(0, in.num_samples, 0, in.num_queries, "samples");
    const Expr found = cells(samples.x, m, samples.y, b);
    samples.where(found >= 0);
    const Expr target = unsafe_promise_clamped(found, 0, in.num_keys - 1);
    this->slab(d, m, cell, b) = holds_zeros ? undef(type) : make_zero(type);
    this->slab(d, m, target, b) =
        in.add(slab(d, m, target, b), in.attention_weights(samples.x, m, samples.y, b) * in.grad_output(d, m, samples.y, b));
}

}  // namespace deformkit
