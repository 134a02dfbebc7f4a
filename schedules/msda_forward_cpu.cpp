#include <algorithm>

#include "msda_forward.h"

namespace deformkit {

using namespace Halide;

// A task takes a tile of queries: taps of all its samples first, in memory order, then the sums, then the output, again in
// memory order. In between, two ways through the tile:
//
// head_major: head by head, all samples of a query at once. The runtime has copied `value` so that a head's cells are
// contiguous: the cells that neighbouring queries share then stay in L1. For many samples per cell (encoders).
//
// Otherwise: a group of four samples (usually one level) at a time for all queries and heads of the tile, so that the cells of
// one level at a time compete for L2. For few samples per cell (decoders), where copying `value` would not pay.
void schedule_msda_forward_cpu(MsdaForward &f, Func output, const MsdaForwardCpuKnobs &knobs) {
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples;
    const Expr D = output.output_buffer().dim(0).extent();
    Var qo{"qo"}, qi{"qi"}, task{"task"};

    output.split(f.q, qo, qi, knobs.query_tile, TailStrategy::GuardWithIf)
        .reorder(f.d, f.m, qi, qo, f.b)
        .fuse(qo, f.b, task)
        .parallel(task)
        .vectorize(f.d, lanes, TailStrategy::GuardWithIf);

    f.taps.compute_at(output, task).reorder_storage(f.s, f.q, f.m, f.b).reorder(f.s, f.m, f.q, f.b);
    for (int width = lanes; width > 1; width /= 2) {
        f.taps.specialize(S % width == 0).vectorize(f.s, width);
    }

    // As many accumulators as registers hold beside the weights; more than one pass over the samples if a head is wider.
    const int vectors = std::min(64 / lanes, 8);
    Var lane{"lane"}, vector{"vector"}, chunk{"chunk"};
    RVar so{"so"}, si{"si"};
    f.sum.compute_at(output, task).vectorize(f.d, lanes, TailStrategy::RoundUp).reorder_storage(f.d, f.m, f.q, f.b);
    const auto schedule_sum = [&](Stage sum, int group, bool head_major) {
        sum.split(f.d, vector, lane, lanes, TailStrategy::RoundUp)
            .vectorize(lane)
            .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
            .unroll(vector)
            .split(f.samples.x, so, si, group)
            .unroll(si);
        if (head_major) {
            sum.reorder(lane, vector, si, so, chunk, f.q, f.m, f.b);
        } else {
            sum.reorder(lane, vector, si, chunk, f.m, f.q, so, f.b);
        }
    };
    for (int group : {4, 2}) {
        const Expr divides = S % group == 0;
        schedule_sum(f.sum.update().specialize(knobs.head_major && divides), group, true);
        schedule_sum(f.sum.update().specialize(!knobs.head_major && divides), group, false);
    }
    schedule_sum(f.sum.update(), 1, true);

    f.suspect.compute_at(output, f.m).update().atomic().vectorize(f.channels.x, lanes, TailStrategy::GuardWithIf);
    f.exact.compute_at(output, f.m).vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.exact.update().reorder(f.d, f.exact_samples.x).vectorize(f.d, lanes, TailStrategy::RoundUp);

    // Channels of common models: loops over vectors unroll and tails vanish.
    for (int channels : {32, 16, 64}) {
        output.specialize(D == channels);
    }
}

}  // namespace deformkit
