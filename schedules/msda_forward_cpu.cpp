#include <algorithm>

#include "msda_forward.h"

namespace deformkit {

using namespace Halide;

// A task takes a tile of queries: taps of all its samples first, in memory order, then the sums in one of two traversals.
//
// Head-major: the runtime has copied `value` so that a head's cells are contiguous, and the cells that neighbouring queries share
// stay in L1. In place they would not: a head's cells, M * D floats apart, fall on an eighth of the cache's sets. Sums stay in
// registers.
//
// Grouped: the cells of one level at a time compete for L2, 1.4x on detr_decoder_wide against all samples of a query at once
// (Xeon with 2 MB L2, AVX-512, one thread).
void schedule_msda_forward_cpu(MsdaForward &f, Func output, const MsdaForwardCpuKnobs &knobs) {
    const bool head_major = knobs.traversal == Traversal::kHeadMajor;
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples;
    const Expr D = output.output_buffer().dim(0).extent();
    Var qo{"qo"}, qi{"qi"}, task{"task"};

    output.split(f.q, qo, qi, knobs.query_tile, TailStrategy::GuardWithIf)
        .fuse(qo, f.b, task)
        .parallel(task)
        .vectorize(f.d, lanes, TailStrategy::GuardWithIf);
    if (head_major) {
        output.reorder(f.d, qi, f.m, task);
    } else {
        output.reorder(f.d, f.m, qi, task);
    }
    const LoopLevel pair(output, head_major ? qi : f.m);  // one query and head

    f.taps.compute_at(output, task)
        .bound(f.field, 0, kTapFields)
        .reorder_storage(f.s, f.field, f.q, f.m, f.b)
        .reorder(f.s, f.field, f.m, f.q, f.b);
    const Expr row = head_major ? S : S * output.output_buffer().dim(1).extent();
    for (int width : {16, 12, 8, 4, 2}) {
        if (width <= lanes) {
            f.taps.specialize(row % width == 0).vectorize(f.s, width).reorder(f.field, f.s).unroll(f.field);
        }
    }

    // As many accumulators as registers hold beside the weights; more than one pass over the samples if a head is wider.
    const int vectors = std::min(64 / lanes, 8);
    Var lane{"lane"}, vector{"vector"}, chunk{"chunk"};
    RVar so{"so"}, si{"si"};
    const auto schedule_update = [&](Stage stage, int group) {
        stage.split(f.d, vector, lane, lanes, TailStrategy::RoundUp)
            .vectorize(lane)
            .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
            .unroll(vector)
            .split(f.samples.x, so, si, group)
            .unroll(si);
        if (head_major) {
            stage.reorder(lane, vector, si, so, chunk);
        } else {
            stage.reorder(lane, vector, si, chunk, f.m, f.q, so, f.b);
        }
    };
    f.sum.compute_at(head_major ? pair : LoopLevel(output, task))
        .vectorize(f.d, lanes, TailStrategy::RoundUp)
        .reorder(f.d, f.m, f.q, f.b);
    for (int group : {4, 2}) {
        schedule_update(f.sum.update().specialize(S % group == 0), group);
    }
    schedule_update(f.sum.update(), 1);

    f.suspect.compute_at(pair).update().atomic().vectorize(f.channels.x, lanes, TailStrategy::GuardWithIf);
    f.exact.compute_at(pair).vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.exact.update().reorder(f.d, f.exact_samples.x).vectorize(f.d, lanes, TailStrategy::RoundUp);

    // Sizes of common models: loops over vectors and groups unroll and tails vanish.
    output.specialize(D == 32 && S == 16);
    for (int channels : {32, 16, 64}) {
        output.specialize(D == channels);
    }
}

}  // namespace deformkit
