#include "generators/algorithms/msda_forward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

namespace {

BilinearTap tap_at(const MsdaForwardInputs &in, const Expr &f, const Expr &q, const Expr &b) {
    return BilinearTap(in.sampling_locations(0, f, q, b), in.sampling_locations(1, f, q, b), in.level_table(f, kWidth),
                       in.level_table(f, kHeight));
}

}  // namespace

MsdaForward::MsdaForward(const MsdaForwardInputs &in, bool recheck) {
    const Type type = in.value.types()[0];
    const Expr zero = make_zero(type);
    // Multiply-adds where the target has them; otherwise the compiler would be free to sum in any order.
    const auto add_products = [&](const std::vector<Expr> &products) {
        Expr total = products[0];
        for (size_t i = 1; i < products.size(); i++) {
            total = in.fused ? total + products[i] : ordered_add(total, products[i]);
        }
        return total;
    };

    samples = RDom(0, in.num_samples, "samples");
    {
        const BilinearTap tap = tap_at(in, f, q, b);
        const Expr weight = select(tap.inside, in.attention_weights(f, q, b), zero);
        std::vector<Expr> fields(kTapFields);
        for (int j = 0; j < 2; j++) {
            const CellPair pair = cell_pair(tap, j, in.level_table(f, kFirstKey), in.num_keys);
            const Expr row_weight = tap.row_weight(j) * weight;
            fields[kPairPosition + j] = reinterpret(type, cast(UInt(type.bits()), pair.key * in.key_step));
            fields[kCornerWeight + 2 * j] = pair.weight[0] * row_weight;
            fields[kCornerWeight + 2 * j + 1] = pair.weight[1] * row_weight;
        }
        taps(f, field, q, b) = mux(field, fields);
        head_taps(s, field, m, q, b) = taps(m * in.num_samples + s, field, q, b);
    }
    {
        const auto stored_tap = [&](int index) { return Expr(head_taps(samples.x, index, m, q, b)); };
        const auto position = [&](int c) {
            const Expr pair = cast<int32_t>(reinterpret(UInt(type.bits()), stored_tap(kPairPosition + c / 2)));
            // cell_pair has clamped it, once for all channels.
            return unsafe_promise_clamped(pair + (c % 2) * in.key_step, 0, in.max_position);
        };
        const auto corner = [&](int c) { return stored_tap(kCornerWeight + c) * in.value(d, m, position(c), b); };
        sum(d, m, q, b) = zero;
        sum(d, m, q, b) = ordered_add(sum(d, m, q, b), add_products({corner(0), corner(1), corner(2), corner(3)}));
    }

    channels = RDom(0, in.num_channels, "channels");
    suspect(m, q, b) = in.careful;
    suspect(m, q, b) = suspect(m, q, b) || is_nan_bits(sum(channels.x, m, q, b));

    exact_samples = RDom(0, in.num_samples, "exact_samples");
    if (recheck) {
        exact_samples.where(suspect(m, q, b));
    }
    {
        const Expr f = m * in.num_samples + exact_samples.x;
        const BilinearTap tap = tap_at(in, f, q, b);
        // The same products in the same order as `sum`, so that what is left out changes no other bit.
        const Expr weight = select(tap.inside, in.attention_weights(f, q, b), zero);
        std::vector<Expr> corners;
        for (int c = 0; c < 4; c++) {
            const int j = c / 2, i = c % 2;
            const Expr key = cast<int64_t>(in.level_table(f, kFirstKey)) +
                             cast<int64_t>(tap.row + j) * in.level_table(f, kWidth) + tap.column + i;
            const Expr counts = tap.inside && tap.has_column(i) && tap.has_row(j) && key >= 0 && key < in.num_keys;
            const Expr safe_key = cast<int32_t>(clamp(key, cast<int64_t>(0), cast<int64_t>(in.num_keys - 1)));
            const Expr position = unsafe_promise_clamped(safe_key * in.key_step, 0, in.max_position);
            corners.push_back(tap.column_weight(i) * (tap.row_weight(j) * weight) *
                              select(counts, in.value(d, m, position, b), zero));
        }
        if (recheck) {
            // Nothing at all where nothing is suspect, not even zeros.
            RDom once(0, 1, "once");
            once.where(suspect(m, q, b));
            exact(d, m, q, b) = undef(type);
            exact(d, m, q, b) = cast(type, once.x);
        } else {
            exact(d, m, q, b) = zero;
        }
        exact(d, m, q, b) = ordered_add(exact(d, m, q, b), add_products(corners));
    }

    const Expr corrected = exact(d, m, q, b);
    result = recheck ? select(suspect(m, q, b), corrected, sum(d, m, q, b)) : corrected;
}

}  // namespace deformkit
