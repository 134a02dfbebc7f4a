#include "generators/algorithms/msda_forward.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;

MsdaForward::MsdaForward(const MsdaForwardInputs &in) {
    const Type type = in.value.types()[0];
    const auto touched = [&](const Expr &column, const std::vector<Expr> &sample, const Expr &check_cells) {
        const auto along = [&](int xy) {
            std::vector<Expr> at = {xy};
            at.insert(at.end(), sample.begin(), sample.end());
            return in.sampling_locations(at);
        };
        const BilinearTap tap(along(0), along(1), in.level_table(column, kWidth), in.level_table(column, kHeight));
        return touched_cells(tap, in.level_table(column, kFirstKey), in.num_keys, check_cells, in.attention_weights(sample));
    };
    if (in.by_head) {
        const auto fields_of = [&](const Expr &sample, bool check_cells) {
            TouchedCells cells = touched(sample, {sample, m, q, b}, make_const(Bool(), check_cells));
            cells.any = cells.any && sample < in.num_samples;
            return corner_fields(cells, in.key_step);
        };
        found(s, m, q, b) = Tuple(fields_of(s, false));
        check = RDom(0, 1, "check");
        check.where(in.level_table(s, kCheckCells) != 0);
        found(s, m, q, b) = Tuple(fields_of(s + check, true));
        head_taps(s, field, m, q, b) = mux(field, Tuple(found(s, m, q, b)));
    } else {
        taps(f, field, q, b) = mux(field, tap_fields(touched(f, {f, q, b}, in.check_cells), in.key_step));
        head_taps(s, field, m, q, b) = taps(m * in.num_samples + s, field, q, b);
    }

    const Tuple zero(std::vector<Expr>(in.value.outputs(), make_zero(type)));
    const auto added = [](const std::vector<Expr> &a, const std::vector<Expr> &b) {
        std::vector<Expr> sums;
        for (size_t i = 0; i < a.size(); i++) {
            sums.push_back(ordered_add(a[i], b[i]));
        }
        return sums;
    };
    // Whole vectors of channels are computed, and no more: for the bounds of what is read.
    const Expr channel = unsafe_promise_clamped(d, 0, in.num_channels - 1);
    samples = RDom(0, in.group, "samples");
    of_group(d, g, m, q, b) = zero;
    {
        const auto tap = [&](int index) { return Expr(head_taps(g * in.group + samples, index, m, q, b)); };
        samples.where(touches_cells(tap(kPair)));
        // By head on top of the sum so far, for which nobody waits: other threads have work.
        const std::vector<Expr> so_far = elements(of_group(d, g, m, q, b));
        std::vector<Expr> sample(in.by_head ? so_far : std::vector<Expr>(so_far.size()));
        for (int c = 0; c < 4; c++) {
            // Within the tensor by touched_cells, once for all channels.
            const Expr position = in.by_head ? cast<int32_t>(reinterpret(UInt(type.bits()), tap(kCornerPosition + c)))
                                             : decode_pair(tap(kPair + c / 2), c % 2, in.key_step);
            const Expr at = unsafe_promise_clamped(position, 0, in.max_position);
            const std::vector<Expr> cell = elements(in.value(channel, m, at, b));
            for (size_t i = 0; i < cell.size(); i++) {
                const Expr product = tap((in.by_head ? int{kCornerWeight} : int{kWeight}) + c) * cell[i];
                // Multiply-adds where the target has them; otherwise the compiler would be free to sum in any order.
                sample[i] = !sample[i].defined() ? product : in.fused ? sample[i] + product : ordered_add(sample[i], product);
            }
        }
        of_group(d, g, m, q, b) = Tuple(in.by_head ? sample : added(so_far, sample));
    }
    groups = RDom(0, in.by_head ? (in.num_samples + in.group - 1) / in.group : in.num_samples / in.group, "groups");
    sum(d, m, q, b) = zero;
    sum(d, m, q, b) = Tuple(added(elements(sum(d, m, q, b)), elements(of_group(channel, groups, m, q, b))));
}

}  // namespace deformkit
