#include "generators/algorithms/msda_backward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

MsdaBackwardSamples::MsdaBackwardSamples(const MsdaBackwardSamplesInputs &in) {
    const Type type = in.value.type();
    const Expr zero = make_zero(type);

    const BilinearTap tap(in.sampling_locations(0, f, x, y), in.sampling_locations(1, f, x, y), in.level_table(f, kWidth),
                          in.level_table(f, kHeight));
    CheckedPair pairs[2];
    for (int row = 0; row < 2; row++) {
        pairs[row] = checked_pair(tap, row, in.level_table(f, kFirstKey), in.num_keys, in.careful);
    }
    const Type bits = UInt(type.bits());
    const auto position_bits = [&](int row) { return reinterpret(type, cast(bits, pairs[row].key * in.key_step)); };
    positions(f, j, x, y) = mux(j, {position_bits(0), position_bits(1)});

    channels = RDom(0, in.num_channels, "channels");
    {
        const Expr pair = cast<int32_t>(reinterpret(bits, positions(m * in.num_samples + s, c / 2, x, y)));
        // checked_pair has clamped it, once for all channels.
        const Expr position = unsafe_promise_clamped(pair + (c % 2) * in.key_step, 0, in.max_position);
        dot(s, c, m, x, y) = zero;
        dot(s, c, m, x, y) += in.grad_output(channels.x, m, x, y) * in.value(channels.x, m, position);
    }
    head_samples = RDom(0, in.num_samples, 0, in.num_heads, "head_samples");
    {
        dots(f, c, x, y) = undef(type);
        dots(head_samples.y * in.num_samples + head_samples.x, c, x, y) = dot(head_samples.x, c, head_samples.y, x, y);
    }
    {
        // A cell that does not count, NaN or not, is out from here on.
        Expr corner[2][2];
        for (int row = 0; row < 2; row++) {
            const Expr halves[2] = {dots(f, 2 * row, x, y), dots(f, 2 * row + 1, x, y)};
            for (int i = 0; i < 2; i++) {
                const Expr counts = tap.inside && tap.has_row(row) && tap.has_column(i);
                corner[row][i] = select(counts, pairs[row].corner(i, halves), zero);
            }
        }
        const Expr ax = tap.ax, ay = tap.ay;
        grad_weight =
            (corner[0][0] * (1 - ax) + corner[0][1] * ax) * (1 - ay) + (corner[1][0] * (1 - ax) + corner[1][1] * ax) * ay;
        const Expr across = (corner[0][1] - corner[0][0]) * (1 - ay) + (corner[1][1] - corner[1][0]) * ay;
        const Expr down = (corner[1][0] - corner[0][0]) * (1 - ax) + (corner[1][1] - corner[0][1]) * ax;
        const Expr weight = select(tap.inside, in.attention_weights(f, x, y), zero);
        grad_location = weight * select(xy == 0, cast(type, tap.width) * across, cast(type, tap.height) * down);
    }
}

MsdaBackwardValue::MsdaBackwardValue(const MsdaBackwardValueInputs &in, const Func &slab) : slab(slab) {
    const Type type = in.grad_output.type(), bits = UInt(type.bits());
    const Expr zero = make_zero(type);
    const auto tap_at = [&](const Expr &sample) {
        return BilinearTap(in.sampling_locations(0, sample), in.sampling_locations(1, sample), in.width, in.height);
    };
    {
        const BilinearTap tap = tap_at(f);
        const Expr weight = in.attention_weights(f);
        std::vector<Expr> fields(kFields);
        for (int row = 0; row < 2; row++) {
            const CheckedPair pair = checked_pair(tap, row, in.first_cell, in.num_cells, in.careful);
            // Zero where the corner does not count, even if the weight is NaN or infinite.
            Expr corner[2];
            for (int side = 0; side < 2; side++) {
                corner[side] = select(tap.inside && tap.has_row(row) && tap.has_column(side),
                                      strict_float(tap.column_weight(side) * tap.row_weight(row) * weight), zero);
            }
            fields[kPairCell + row] = reinterpret(type, cast(bits, pair.key));
            for (int half = 0; half < 2; half++) {
                fields[kCornerWeight + 2 * row + half] = pair.half(half, corner);
            }
        }
        taps(f, field) = mux(field, fields);
    }

    slab(d, cell) = undef(type);
    corners = RDom(0, 4, 0, in.num_samples, 0, in.num_queries, "corners");
    corners.where(!in.exact);
    {
        const Expr corner = corners.x, sample = corners.y + in.num_samples * corners.z;
        const Expr pair = cast<int32_t>(reinterpret(bits, taps(sample, kPairCell + corner / 2)));
        const Expr target = unsafe_promise_clamped(pair + corner % 2, 0, in.num_cells - 1);
        slab(d, target) += taps(sample, kCornerWeight + corner) * in.grad_output(d, corners.z);
    }
    exact_corners = RDom(0, 4, 0, in.num_samples, 0, in.num_queries, "exact_corners");
    exact_corners.where(in.exact);
    {
        const Expr side = exact_corners.x % 2, row = exact_corners.x / 2;
        const Expr sample = exact_corners.y + in.num_samples * exact_corners.z;
        const BilinearTap tap = tap_at(sample);
        const auto pick = [](const Expr &which, const Expr &at0, const Expr &at1) { return select(which == 0, at0, at1); };
        const Expr key = cast<int64_t>(in.first_cell) + cast<int64_t>(tap.row + row) * in.width + tap.column + side;
        exact_corners.where(tap.inside && pick(side, tap.has_column(0), tap.has_column(1)) &&
                            pick(row, tap.has_row(0), tap.has_row(1)) && key >= 0 && key < in.num_cells);
        const Expr target = unsafe_promise_clamped(cast<int32_t>(key), 0, in.num_cells - 1);
        // The same products in the same order as in `taps`, so that what is left out changes no other bit.
        const Expr corner = strict_float(pick(side, tap.column_weight(0), tap.column_weight(1)) *
                                         pick(row, tap.row_weight(0), tap.row_weight(1)) * in.attention_weights(sample));
        slab(d, target) += corner * in.grad_output(d, exact_corners.z);
    }
}

}  // namespace deformkit
