#include "msda_backward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

MsdaBackwardSamples::MsdaBackwardSamples(const MsdaBackwardSamplesInputs &in) {
    const Type type = compute_type(in.value.type());
    const Expr zero = make_zero(type);

    const BilinearTap tap(cast(type, in.sampling_locations(0, f, q)), cast(type, in.sampling_locations(1, f, q)),
                          in.level_table(f, kWidth), in.level_table(f, kHeight));
    CheckedPair pairs[2];
    for (int row = 0; row < 2; row++) {
        pairs[row] = checked_pair(tap, row, in.level_table(f, kFirstKey), in.num_keys, in.careful);
    }
    const Type bits = UInt(type.bits());
    const auto position_bits = [&](int row) { return reinterpret(type, cast(bits, pairs[row].key * in.key_step)); };
    positions(f, j, q) = mux(j, {position_bits(0), position_bits(1)});

    channels = RDom(0, in.num_channels, "channels");
    {
        const Expr pair = cast<int32_t>(reinterpret(bits, positions(m * in.num_samples + s, c / 2, q)));
        // checked_pair has clamped it, once for all channels.
        const Expr position = unsafe_promise_clamped(pair + (c % 2) * in.key_step, 0, in.max_position);
        dot(s, c, m, q) = zero;
        dot(s, c, m, q) += cast(type, in.grad_output(channels.x, m, q)) * cast(type, in.value(channels.x, m, position));
    }
    head_samples = RDom(0, in.num_samples, 0, in.num_heads, "head_samples");
    {
        dots(f, c, q) = undef(type);
        dots(head_samples.y * in.num_samples + head_samples.x, c, q) = dot(head_samples.x, c, head_samples.y, q);
    }
    {
        // A cell that does not count, NaN or not, is out from here on.
        Expr corner[2][2];
        for (int row = 0; row < 2; row++) {
            const Expr halves[2] = {dots(f, 2 * row, q), dots(f, 2 * row + 1, q)};
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
        const Expr weight = select(tap.inside, cast(type, in.attention_weights(f, q)), zero);
        grad_location = weight * select(xy == 0, cast(type, tap.width) * across, cast(type, tap.height) * down);
    }
}

MsdaBackwardValue::MsdaBackwardValue(const MsdaBackwardValueInputs &in, const Func &slab) : slab(slab) {
    const Type type = compute_type(in.grad_output.type()), bits = UInt(type.bits());
    const Expr zero = make_zero(type);
    const auto gradient = [&](const Expr &query) { return cast(type, in.grad_output(d, query)); };
    const auto tap_at = [&](const Expr &sample, const Expr &query) {
        return BilinearTap(cast(type, in.sampling_locations(0, sample, query)),
                           cast(type, in.sampling_locations(1, sample, query)), in.level_table(sample, kWidth),
                           in.level_table(sample, kHeight));
    };
    {
        const BilinearTap tap = tap_at(s, q);
        const Expr weight = cast(type, in.attention_weights(s, q));
        std::vector<Expr> fields(kFields);
        for (int row = 0; row < 2; row++) {
            const CheckedPair pair = checked_pair(tap, row, in.level_table(s, kFirstKey), in.num_cells, in.careful);
            // Zero where the corner does not count, even if the weight is NaN or infinite.
            Expr corner[2];
            for (int i = 0; i < 2; i++) {
                corner[i] = select(tap.inside && tap.has_row(row) && tap.has_column(i),
                                   tap.column_weight(i) * tap.row_weight(row) * weight, zero);
            }
            fields[kPairCell + row] = reinterpret(type, cast(bits, pair.key));
            for (int i = 0; i < 2; i++) {
                fields[kCornerWeight + 2 * row + i] = pair.half(i, corner);
            }
        }
        taps(s, field, q) = mux(field, fields);
    }

    slab(d, cell) = zero;
    corners = RDom(0, 4, 0, in.num_samples, 0, in.num_queries, "corners");
    corners.where(!in.exact);
    {
        const Expr corner = corners.x, sample = corners.y, query = corners.z;
        const Expr pair = cast<int32_t>(reinterpret(bits, taps(sample, kPairCell + corner / 2, query)));
        const Expr target = unsafe_promise_clamped(pair + corner % 2, 0, in.num_cells - 1);
        slab(d, target) += taps(sample, kCornerWeight + corner, query) * gradient(query);
    }
    exact_corners = RDom(0, 2, 0, 2, 0, in.num_samples, 0, in.num_queries, "exact_corners");
    exact_corners.where(in.exact);
    {
        const Expr i = exact_corners.x, row = exact_corners.y, sample = exact_corners.z, query = exact_corners.w;
        const BilinearTap tap = tap_at(sample, query);
        const auto pick = [](const Expr &which, const Expr &at0, const Expr &at1) { return select(which == 0, at0, at1); };
        const Expr key = cast<int64_t>(in.level_table(sample, kFirstKey)) +
                         cast<int64_t>(tap.row + row) * in.level_table(sample, kWidth) + tap.column + i;
        exact_corners.where(tap.inside && pick(i, tap.has_column(0), tap.has_column(1)) &&
                            pick(row, tap.has_row(0), tap.has_row(1)) && key >= 0 && key < in.num_cells);
        const Expr target = unsafe_promise_clamped(cast<int32_t>(key), 0, in.num_cells - 1);
        const Expr corner = pick(i, tap.column_weight(0), tap.column_weight(1)) *
                            pick(row, tap.row_weight(0), tap.row_weight(1)) * cast(type, in.attention_weights(sample, query));
        slab(d, target) += corner * gradient(query);
    }
}

}  // namespace deformkit
