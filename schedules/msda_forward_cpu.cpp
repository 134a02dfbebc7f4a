#include <algorithm>
#include <utility>

#include "schedules/msda_forward.h"

namespace deformkit {

using namespace Halide;

// A tile of queries: taps of all its samples first, in memory order, then sums and output in one of two traversals.
//
// Head-major: the runtime hands over a rectangle of queries, its rows on the batch axis: cells that neighbouring queries share
// stay in L1, or in L2 where `value` has not been copied head by head and a head's cells, M * D floats apart, fall on an eighth
// of the sets. Against runs of queries along a row, rectangles take 0.75x the time on bevformer_tsa (Xeon with 2 MB L2,
// AVX-512, one thread, as below). One call is one such block, and writes its output, a line pair here and there, to memory that
// stays in L2.
//
// Grouped: the cells of one level at a time compete for L2, 1.4x on detr_decoder_wide against all samples of a query at once.
void schedule_msda_forward_cpu(MsdaForward &f, Func output, const MsdaForwardCpuKnobs &knobs) {
    const bool head_major = knobs.traversal == Traversal::kHeadMajor;
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples;
    const Expr D = output.output_buffer().dim(0).extent(), M = output.output_buffer().dim(1).extent();
    // As many accumulators as registers hold beside the weights; more than one pass over the samples if a head is wider.
    const int vectors = std::min(64 / lanes, 8);
    Var qo{"qo"}, qi{"qi"}, task{"task"}, lane{"lane"}, vector{"vector"}, chunk{"chunk"};
    const auto by_vectors = [&](Stage stage) {
        stage.split(f.d, vector, lane, lanes, TailStrategy::GuardWithIf)
            .vectorize(lane)
            .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
            .unroll(vector);
    };

    output.split(f.q, qo, qi, knobs.query_tile, TailStrategy::GuardWithIf);
    if (head_major) {
        by_vectors(output);
        output.reorder(lane, vector, chunk, qi, f.b, f.m, qo);
        task = qo;
    } else {
        output.vectorize(f.d, lanes, TailStrategy::GuardWithIf).fuse(qo, f.b, task).reorder(f.d, f.m, qi, task).parallel(task);
    }

    if (head_major) {
        // One query's taps, in vectors that heads of few samples share, then to where the sums of each head read them in turn.
        f.head_taps.compute_at(output, task)
            .bound(f.field, 0, kTapFields)
            .reorder_storage(f.s, f.field, f.q, f.b, f.m)
            .reorder(f.s, f.m, f.field, f.q, f.b);
        for (int width : {16, 12, 8, 4, 2}) {
            if (width <= lanes) {
                f.head_taps.specialize(S % width == 0).vectorize(f.s, width).reorder(f.m, f.s);
            }
        }
        f.taps.compute_at(f.head_taps, f.q).hoist_storage(output, task);
    } else {
        f.taps.compute_at(output, task);
    }
    f.taps.bound(f.field, 0, kTapFields).bound(f.f, 0, M * S).reorder(f.f, f.field, f.q, f.b);
    for (int width : {16, 12, 8, 4, 2}) {
        if (width <= lanes) {
            f.taps.specialize(M * S % width == 0).vectorize(f.f, width).reorder(f.field, f.f).unroll(f.field);
        }
    }

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
        f.sum.compute_at(output, qi);
    } else {
        f.sum.compute_at(output, task);
    }
    f.sum.vectorize(f.d, lanes, TailStrategy::RoundUp);
    for (int group : {4, 2}) {
        schedule_update(f.sum.update().specialize(S % group == 0), group);
    }
    schedule_update(f.sum.update(), 1);

    const LoopLevel sums(output, head_major ? qi : f.m);
    RVar of_lane{"of_lane"}, of_vector{"of_vector"}, of_chunk{"of_chunk"};
    f.suspect.compute_at(sums)
        .update()
        .split(f.channels.x, of_vector, of_lane, lanes, TailStrategy::GuardWithIf)
        .split(of_vector, of_chunk, of_vector, vectors, TailStrategy::GuardWithIf)
        .atomic()
        .vectorize(of_lane)
        .unroll(of_vector);
    f.exact.compute_at(sums).vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.exact.update(0).vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.exact.update(1).reorder(f.d, f.exact_samples.x).vectorize(f.d, lanes, TailStrategy::RoundUp);

    // Channels and samples of common models: loops over vectors and groups unroll and tails vanish. Each specialisation is one
    // more copy of everything above, and beyond about a dozen of them lowering takes minutes.
    const std::pair<int, int> common[] = {{32, 16}, {32, 12}, {32, 4}, {32, 32}, {16, 2}, {64, 16}};
    if (!knobs.specialize_common_sizes) {
        return;
    }
    for (const auto &[channels, samples] : common) {
        output.specialize(D == channels && S == samples);
    }
    for (int channels : {32, 16, 64}) {
        output.specialize(D == channels);
    }
}

}  // namespace deformkit
