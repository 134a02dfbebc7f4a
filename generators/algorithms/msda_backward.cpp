#include "generators/algorithms/msda_backward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

MsdaBackwardSamples::MsdaBackwardSamples(const MsdaBackwardSamplesInputs &in) {
    const Type type = in.value.type();
    const Expr zero = make_zero(type);

    const BilinearTap tap(in.sampling_locations(0, f, x, y), in.sampling_locations(1, f, x, y), in.level_table(f, kWidth),
                          in.level_table(f, kHeight));
    const Expr weight = in.attention_weights(f, x, y);
    const TouchedCells cells = touched_cells(tap, in.level_table(f, kFirstKey), in.num_keys, in.check_cells, weight);
    // Four positions of a sample: to decode two pairs, as the sums over taps do, takes longer here than to read two numbers more
    // (whole backward on detr_encoder and decoders 0.90x to 0.98x; with four in taps, the forward 1.05x to 1.2x; 2-core EPYC,
    // AVX-512).
    const std::vector<Expr> fields = cell_fields(cells, in.key_step);
    positions(f, c, x, y) = mux(c, {fields[0], fields[1], fields[2], fields[3]});

    channels = RDom(0, in.num_channels, "channels");
    {
        // Within the tensor by touched_cells, once for all channels.
        const Expr stored = decode_position(positions(m * in.num_samples + s, c, x, y));
        const Expr position = unsafe_promise_clamped(stored, 0, in.max_position);
        dot(s, c, m, x, y) = zero;
        dot(s, c, m, x, y) += in.grad_output(channels.x, m, x, y) * in.value(channels.x, m, position);
    }
    head_samples = RDom(0, in.num_samples, 0, in.num_heads, "head_samples");
    {
        dots(f, c, x, y) = undef(type);
        dots(head_samples.y * in.num_samples + head_samples.x, c, x, y) = dot(head_samples.x, c, head_samples.y, x, y);
    }
    {
        // Stand-ins are out from here on, NaN or not.
        const auto corner = [&](int c) { return select(cells.is_cell[c], dots(f, c, x, y), zero); };
        const Expr at00 = corner(0), at01 = corner(1), at10 = corner(2), at11 = corner(3);
        const Expr ax = tap.ax, ay = tap.ay;
        grad_weight = (at00 * (1 - ax) + at01 * ax) * (1 - ay) + (at10 * (1 - ax) + at11 * ax) * ay;
        const Expr across = (at01 - at00) * (1 - ay) + (at11 - at10) * ay;
        const Expr down = (at10 - at00) * (1 - ax) + (at11 - at01) * ax;
        grad_location =
            select(tap.inside, weight, zero) * select(xy == 0, cast(type, tap.width) * across, cast(type, tap.height) * down);
    }
}

MsdaBackwardValue::MsdaBackwardValue(const MsdaBackwardValueInputs &in, const Func &slab) : slab(slab) {
    const Type type = in.grad_output.type();
    {
        const BilinearTap tap(in.sampling_locations(0, f), in.sampling_locations(1, f), in.width, in.height);
        const TouchedCells cells = touched_cells(tap, in.first_cell, in.num_cells, in.check_cells, in.attention_weights(f));
        taps(f, field) = mux(field, tap_fields(cells, 1));
    }

    slab(d, cell) = undef(type);
    corners = RDom(0, 4, 0, in.num_samples, 0, in.num_queries, "corners");
    {
        const Expr corner = corners.x, sample = corners.y + in.num_samples * corners.z;
        corners.where(touches_cells(taps(sample, kPair)));
        const Expr target = decode_pair(taps(sample, kPair + corner / 2), corner % 2, 1);
        slab(d, unsafe_promise_clamped(target, 0, in.num_cells - 1)) +=
            taps(sample, kWeight + corner) * in.grad_output(d, corners.z);
    }
}

}  // namespace deformkit
