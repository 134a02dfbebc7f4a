#include <algorithm>
#include <utility>

#include "msda_forward.h"

namespace deformkit {

using namespace Halide;

// A tile of queries: taps of all its samples first, in memory order, then the sums in one of two traversals, then the output,
// in memory order again. Head-major sums written straight to the output, a line pair here and there, spent half of
// bevformer_tsa waiting for those lines (Xeon with 2 MB L2, AVX-512, one thread, as below).
//
// Head-major: the runtime has copied `value` so that a head's cells are contiguous, and hands over a rectangle of queries, its
// rows on the batch axis: cells that neighbouring queries share stay in L1. In place they would not: a head's cells, M * D
// floats apart, fall on an eighth of the cache's sets. Against runs of queries along a row, rectangles take 0.75x the time on
// bevformer_tsa. One call is one such block.
//
// Grouped: the cells of one level at a time compete for L2, 1.4x on detr_decoder_wide against all samples of a query at once.
void schedule_msda_forward_cpu(MsdaForward &f, Func output, const MsdaForwardCpuKnobs &knobs) {
    const bool head_major = knobs.traversal == Traversal::kHeadMajor;
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples;
    const Expr D = output.output_buffer().dim(0).extent();
    Var qo{"qo"}, qi{"qi"}, task{"task"};

    output.split(f.q, qo, qi, knobs.query_tile, TailStrategy::GuardWithIf).vectorize(f.d, lanes, TailStrategy::GuardWithIf);
    if (head_major) {
        output.reorder(f.d, f.m, qi, f.b, qo);
        task = qo;
    } else {
        output.fuse(qo, f.b, task).reorder(f.d, f.m, qi, task).parallel(task);
    }

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
    const int vectors = std::min(64 / lanes, 8) / knobs.channels_at_d;
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
    if (head_major) {
        // Sums of one query and head stay in registers until they are complete.
        Func complete = f.sum.in();
        complete.compute_at(output, task)
            .reorder_storage(f.d, f.q, f.b, f.m)
            .reorder(f.d, f.q, f.b, f.m)
            .vectorize(f.d, lanes, TailStrategy::RoundUp);
        f.sum.compute_at(complete, f.q);
    } else {
        f.sum.compute_at(output, task);
    }
    f.sum.vectorize(f.d, lanes, TailStrategy::RoundUp);
    for (int group : {4, 2}) {
        schedule_update(f.sum.update().specialize(S % group == 0), group);
    }
    schedule_update(f.sum.update(), 1);

    f.suspect.compute_at(output, f.m).update().atomic().vectorize(f.channels.x, lanes, TailStrategy::GuardWithIf);
    f.exact.compute_at(output, f.m).vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.exact.update(0).vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.exact.update(1).reorder(f.d, f.exact_samples.x).vectorize(f.d, lanes, TailStrategy::RoundUp);

    // Channels and samples of common models: loops over vectors and groups unroll and tails vanish. Each specialisation is one
    // more copy of everything above, and beyond about a dozen of them lowering takes minutes.
    const std::pair<int, int> common[] = {{32, 16}, {32, 12}, {32, 32}, {16, 2}, {64, 16}};
    if (!knobs.specialize_common_sizes) {
        return;
    }
    for (const auto &[channels, samples] : common) {
        output.specialize(D == channels / knobs.channels_at_d && S == samples);
    }
    for (int channels : {32, 16, 64}) {
        output.specialize(D == channels / knobs.channels_at_d);
    }
}

}  // namespace deformkit
