#include "generators/algorithms/gka_passes.h"

#include <cstdint>

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

CellTap::CellTap(const Expr &x_bits, const Expr &y_bits, const Expr &kind, const Expr &width, const Expr &height,
                 const Expr &first_key, const Expr &num_keys, const Expr &careful) {
    const auto along = [&](const Expr &bits, const Expr &extent, Expr &somewhere) {
        const Expr as_float = reinterpret<float>(bits);
        const Expr finite = magnitude_bits(as_float) < non_finite_bits(Float(32));
        // Clamped before it is converted, so that what is huge saturates; and after, since float32 may round a large extent up.
        const Expr truncated =
            cast<int32_t>(strict_float(max(min(select(finite, as_float, 0.0f), cast<float>(extent - 1)), 0.0f)));
        somewhere = select(kind == kFloatLocation, finite, kind == kIntLocation || bits != INT32_MIN);
        return max(min(select(kind == kFloatLocation, truncated, bits), extent - 1), 0);
    };
    Expr has_column, has_row;
    const Expr column = along(x_bits, width, has_column), row = along(y_bits, height, has_row);
    const Expr wide = cast<int64_t>(first_key) + cast<int64_t>(row) * width + column;
    const Expr is_cell = !careful || (width > 0 && wide >= 0 && wide < num_keys);
    counts = has_column && has_row && is_cell;
    key = select(careful, cast<int32_t>(select(is_cell, wide, cast<int64_t>(0))), first_key + row * width + column);
}

namespace {

CellTap tap_of(const GkaInputs &in, const Expr &s, const Expr &q) {
    return CellTap(in.sampling_locations(0, s, q), in.sampling_locations(1, s, q), in.location_kind, in.level_table(s, kWidth),
                   in.level_table(s, kHeight), in.level_table(s, kFirstKey), in.num_keys, in.careful);
}

}  // namespace

GkaForward::GkaForward(const GkaInputs &in) {
    const Type type = compute_type(in.value.type()), bits = Int(type.bits());
    {
        const CellTap tap = tap_of(in, s, q);
        const Expr position = select(tap.counts, tap.key * in.key_step, -1);
        taps(s, field, q) = mux(field, {reinterpret(type, cast(bits, position)), cast(type, in.attention_weights(s, q))});
    }
    const auto position = [&](const Expr &sample) { return cast<int32_t>(reinterpret(bits, taps(sample, kPosition, q))); };
    all_samples = RDom(0, in.num_samples, "all_samples");
    lowest(q) = 0;
    lowest(q) = min(lowest(q), position(all_samples));

    const auto product = [&](const Expr &sample) {
        const Expr safe = unsafe_promise_clamped(position(sample), 0, in.max_position);
        return taps(sample, kWeight, q) * cast(type, in.value(d, safe));
    };
    sum(d, q) = make_zero(type);
    samples = RDom(0, in.num_samples, "samples");
    samples.where(lowest(q) >= 0);
    sum(d, q) += product(samples);
    some_samples = RDom(0, in.num_samples, "some_samples");
    some_samples.where(lowest(q) < 0);
    some_samples.where(position(some_samples) >= 0);
    sum(d, q) += product(some_samples);
}

GkaBackwardSamples::GkaBackwardSamples(const GkaInputs &in) {
    const Type type = compute_type(in.value.type());
    const CellTap tap = tap_of(in, s, q);
    positions(s, q) = select(tap.counts, tap.key * in.key_step, -1);

    channels = RDom(0, in.num_channels, "channels");
    const Expr position = unsafe_promise_clamped(max(positions(s, q), 0), 0, in.max_position);
    dot(s, q) = make_zero(type);
    dot(s, q) += cast(type, in.grad_output(channels, q)) * cast(type, in.value(channels, position));
    grad_weight = select(positions(s, q) >= 0, dot(s, q), make_zero(type));
}

GkaBackwardValue::GkaBackwardValue(const GkaBackwardValueInputs &in) : slab(in.slab) {
    const Type type = compute_type(in.grad_output.type());
    const CellTap tap(in.sampling_locations(0, s, q), in.sampling_locations(1, s, q), in.location_kind,
                      in.level_table(s, kWidth), in.level_table(s, kHeight), in.level_table(s, kFirstKey), in.num_cells,
                      in.careful);
    cells(s, q) = select(tap.counts, tap.key, -1);

    slab(d, cell) = undef(type);

    samples = RDom(0, in.num_samples, 0, in.num_queries, "samples");
    samples.where(cells(samples.x, samples.y) >= 0);
    const Expr target = unsafe_promise_clamped(cells(samples.x, samples.y), 0, in.num_cells - 1);
    slab(d, target) += cast(type, in.attention_weights(samples.x, samples.y)) * cast(type, in.grad_output(d, samples.y));
}

}  // namespace deformkit
