#include "msda_forward.h"

#include <functional>

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

namespace {

BilinearTap tap_at(const MsdaForwardInputs &in, const Expr &f, const Expr &q, const Expr &b) {
    return BilinearTap(in.sampling_locations(0, f, q, b), in.sampling_locations(1, f, q, b), in.level_table(f, kWidth),
                       in.level_table(f, kHeight));
}

/// Element `i` of a Func that may be a tuple.
Expr at(const Func &f, const std::vector<Expr> &args, int i) {
    return f.outputs() == 1 ? Expr(f(args)) : Expr(f(args)[i]);
}

}  // namespace

MsdaForward::MsdaForward(const MsdaForwardInputs &in, bool recheck, bool flat_taps) {
    const Type type = in.value.types()[0];
    const Expr zero = make_zero(type);
    const int channels_at_d = in.value.outputs();
    const auto for_channels = [&](const std::function<Expr(int)> &channel) {
        std::vector<Expr> all(channels_at_d);
        for (int i = 0; i < channels_at_d; i++) {
            all[i] = channel(i);
        }
        return Tuple(all);
    };
    // Multiply-adds where the target has them; otherwise the compiler would be free to sum in any order.
    const auto add_products = [&](const std::vector<Expr> &products) {
        Expr total = products[0];
        for (size_t i = 1; i < products.size(); i++) {
            total = in.fused ? total + products[i] : ordered_add(total, products[i]);
        }
        return total;
    };
    const auto value = [&](const Expr &position, int i) { return at(in.value, {d, m, position, b}, i); };

    samples = RDom(0, in.num_samples, "samples");
    {
        const Expr f = m * in.num_samples + s;
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
        taps(s, field, m, q, b) = mux(field, fields);
    }
    {
        const auto stored_tap = [&](int index) -> Expr {
            return flat_taps ? taps(m * in.num_samples + samples.x, index, 0, q, b) : taps(samples.x, index, m, q, b);
        };
        const auto position = [&](int c) {
            const Expr pair = cast<int32_t>(reinterpret(UInt(type.bits()), stored_tap(kPairPosition + c / 2)));
            // cell_pair has clamped it, once for all channels.
            return unsafe_promise_clamped(pair + (c % 2) * in.key_step, 0, in.max_position);
        };
        const auto corner = [&](int c, int i) { return stored_tap(kCornerWeight + c) * value(position(c), i); };
        sum(d, m, q, b) = for_channels([&](int) { return make_zero(type); });
        sum(d, m, q, b) = for_channels([&](int i) {
            return ordered_add(at(sum, {d, m, q, b}, i),
                               add_products({corner(0, i), corner(1, i), corner(2, i), corner(3, i)}));
        });
    }

    channels = RDom(0, in.num_channels, "channels");
    suspect(m, q, b) = in.careful;
    Expr some_nan = is_nan_bits(at(sum, {channels.x, m, q, b}, 0));
    for (int i = 1; i < channels_at_d; i++) {
        some_nan = some_nan || is_nan_bits(at(sum, {channels.x, m, q, b}, i));
    }
    suspect(m, q, b) = suspect(m, q, b) || some_nan;

    exact_samples = RDom(0, in.num_samples, "exact_samples");
    if (recheck) {
        exact_samples.where(suspect(m, q, b));
    }
    {
        const Expr f = m * in.num_samples + exact_samples.x;
        const BilinearTap tap = tap_at(in, f, q, b);
        // The same products in the same order as `sum`, so that what is left out changes no other bit.
        const Expr weight = select(tap.inside, in.attention_weights(f, q, b), zero);
        std::vector<std::vector<Expr>> corners(channels_at_d);
        for (int c = 0; c < 4; c++) {
            const int j = c / 2, i = c % 2;
            const Expr key = cast<int64_t>(in.level_table(f, kFirstKey)) +
                             cast<int64_t>(tap.row + j) * in.level_table(f, kWidth) + tap.column + i;
            const Expr counts = tap.inside && tap.has_column(i) && tap.has_row(j) && key >= 0 && key < in.num_keys;
            const Expr safe_key = cast<int32_t>(clamp(key, cast<int64_t>(0), cast<int64_t>(in.num_keys - 1)));
            const Expr position = unsafe_promise_clamped(safe_key * in.key_step, 0, in.max_position);
            for (int channel = 0; channel < channels_at_d; channel++) {
                corners[channel].push_back(tap.column_weight(i) * (tap.row_weight(j) * weight) *
                                           select(counts, value(position, channel), zero));
            }
        }
        if (recheck) {
            // Nothing at all where nothing is suspect, not even zeros.
            RDom once(0, 1, "once");
            once.where(suspect(m, q, b));
            exact(d, m, q, b) = for_channels([&](int) { return undef(type); });
            exact(d, m, q, b) = for_channels([&](int) { return cast(type, once.x); });
        } else {
            exact(d, m, q, b) = for_channels([&](int) { return make_zero(type); });
        }
        exact(d, m, q, b) = for_channels([&](int i) {
            return ordered_add(at(exact, {d, m, q, b}, i), add_products(corners[i]));
        });
    }

    for (int i = 0; i < channels_at_d; i++) {
        const Expr corrected = at(exact, {d, m, q, b}, i);
        result.push_back(recheck ? select(suspect(m, q, b), corrected, at(sum, {d, m, q, b}, i)) : corrected);
    }
}

}  // namespace deformkit
