#include "msda_forward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

namespace {

BilinearTap tap_at(const MsdaForwardInputs &in, const Expr &s, const Expr &m, const Expr &q, const Expr &b) {
    const Type type = compute_type(in.sampling_locations.type());
    return BilinearTap(cast(type, in.sampling_locations(0, s, m, q, b)), cast(type, in.sampling_locations(1, s, m, q, b)),
                       in.level_table(s, kWidth), in.level_table(s, kHeight));
}

}  // namespace

MsdaForward::MsdaForward(const MsdaForwardInputs &in, bool recheck) {
    const Type type = compute_type(in.value.type());
    const Expr zero = make_zero(type);
    const auto value = [&](const Expr &key) { return cast(type, in.value(d, m, key, b)); };

    samples = RDom(0, in.num_samples, "samples");
    {
        const BilinearTap tap = tap_at(in, s, m, q, b);
        const Expr weight = select(tap.inside, cast(type, in.attention_weights(s, m, q, b)), zero);
        std::vector<Expr> keys, weights;
        for (int j = 0; j < 2; j++) {
            const CellPair pair = cell_pair(tap, j, in.level_table(s, kFirstKey), in.num_keys);
            // Stored unsigned, so that Halide takes nothing for granted about stored keys and adds no clamp of its own to each
            // load: cell_pair has clamped them once for all channels.
            keys.push_back(reinterpret<uint32_t>(pair.key));
            const Expr row_weight = tap.row_weight(j) * weight;
            weights.push_back(pair.weight[0] * row_weight);
            weights.push_back(pair.weight[1] * row_weight);
        }
        taps(s, m, q, b) = Tuple(keys[0], keys[1], weights[0], weights[1], weights[2], weights[3]);
    }
    {
        const Expr r = samples.x;
        const auto key = [&](int j) {
            return unsafe_promise_clamped(reinterpret<int32_t>(taps(r, m, q, b)[j]), 0, in.num_keys - 2);
        };
        const auto corner = [&](int c) { return taps(r, m, q, b)[2 + c] * value(key(c / 2) + c % 2); };
        sum(d, m, q, b) = zero;
        sum(d, m, q, b) += corner(0) + corner(1) + corner(2) + corner(3);
    }

    channels = RDom(0, in.num_channels, "channels");
    suspect(m, q, b) = in.careful;
    suspect(m, q, b) = suspect(m, q, b) || is_nan_bits(sum(channels.x, m, q, b));

    exact_samples = RDom(0, in.num_samples, "exact_samples");
    if (recheck) {
        exact_samples.where(suspect(m, q, b));
    }
    {
        const Expr r = exact_samples.x;
        const BilinearTap tap = tap_at(in, r, m, q, b);
        Expr total = zero;
        for (int c = 0; c < 4; c++) {
            const int j = c / 2, i = c % 2;
            const Expr key = cast<int64_t>(in.level_table(r, kFirstKey)) +
                             cast<int64_t>(tap.row + j) * in.level_table(r, kWidth) + tap.column + i;
            const Expr counts = tap.inside && tap.has_column(i) && tap.has_row(j) && key >= 0 && key < in.num_keys;
            const Expr safe_key = cast<int32_t>(clamp(key, cast<int64_t>(0), cast<int64_t>(in.num_keys - 1)));
            const Expr weight =
                tap.column_weight(i) * tap.row_weight(j) * cast(type, in.attention_weights(r, m, q, b));
            total = strict_float(total + select(counts, weight * value(safe_key), zero));
        }
        exact(d, m, q, b) = zero;
        exact(d, m, q, b) = strict_float(exact(d, m, q, b) + total);
    }

    result = recheck ? select(suspect(m, q, b), exact(d, m, q, b), sum(d, m, q, b)) : exact(d, m, q, b);
}

}  // namespace deformkit
