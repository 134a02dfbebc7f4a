#include "generators/algorithms/msda_forward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

MsdaForward::MsdaForward(const MsdaForwardInputs &in) {
    const Type type = in.value.types()[0];
    {
        const BilinearTap tap(in.sampling_locations(0, f, q, b), in.sampling_locations(1, f, q, b), in.level_table(f, kWidth),
                              in.level_table(f, kHeight));
        const TouchedCells cells =
            touched_cells(tap, in.level_table(f, kFirstKey), in.num_keys, in.check_cells, in.attention_weights(f, q, b));
        taps(f, field, q, b) = mux(field, tap_fields(cells, in.key_step));
        head_taps(s, field, m, q, b) = taps(m * in.num_samples + s, field, q, b);
    }

    const Expr zero = make_zero(type);
    // Whole vectors of channels are computed, and no more: for the bounds of what is read.
    const Expr channel = unsafe_promise_clamped(d, 0, in.num_channels - 1);
    samples = RDom(0, in.group, "samples");
    {
        const auto tap = [&](int index) { return Expr(head_taps(g * in.group + samples, index, m, q, b)); };
        samples.where(touches_cells(tap(kPair)));
        Expr sample;
        for (int c = 0; c < 4; c++) {
            // Within the tensor by touched_cells, once for all channels.
            const Expr at = unsafe_promise_clamped(decode_pair(tap(kPair + c / 2), c % 2, in.key_step), 0, in.max_position);
            const Expr product = tap(kWeight + c) * in.value(channel, m, at, b);
            // Multiply-adds where the target has them; otherwise the compiler would be free to sum in any order.
            sample = c == 0 ? product : in.fused ? sample + product : ordered_add(sample, product);
        }
        of_group(d, g, m, q, b) = zero;
        of_group(d, g, m, q, b) = ordered_add(of_group(d, g, m, q, b), sample);
    }
    groups = RDom(0, in.num_samples / in.group, "groups");
    sum(d, m, q, b) = zero;
    sum(d, m, q, b) = ordered_add(sum(d, m, q, b), of_group(channel, groups, m, q, b));
}

}  // namespace deformkit
