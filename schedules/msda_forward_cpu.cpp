#include <algorithm>

#include "schedules/msda_forward.h"

namespace deformkit {

using namespace Halide;

namespace {

/// The first of `most`, half of it, a quarter and so on that divides `number`.
Expr divisor(const Expr &number, int most) {
    return most > 1 ? select(number % most == 0, most, divisor(number, most / 2)) : 1;
}

}  // namespace

// A tile of queries: taps of all its samples first, in memory order, then sums and output in one of two traversals.
//
// Head-major: the runtime hands over a rectangle of queries, its rows on the batch axis: cells that neighbouring queries share
// stay in L1, or in L2 where `value` has not been copied head by head and a head's cells, M * D floats apart, fall on an eighth
// of the sets. Against runs of queries along a row, rectangles take 0.75x the time on bevformer_tsa (Xeon with 2 MB L2,
// AVX-512, one thread, as below). One call is one such block, and writes its output, a line pair here and there, to memory that
// stays in L2.
//
// Grouped: the cells of one level at a time compete for L2, 1.4x on detr_decoder_wide against all samples of a query at once.
void schedule_msda_forward_cpu(MsdaForward &f, Func output, const MsdaForwardExtents &extents,
                               const MsdaForwardScheduleKnobs &knobs) {
    const bool head_major = extents.traversal == Traversal::kHeadMajor;
    const int lanes = extents.lanes;
    const Expr S = extents.num_samples;
    const Expr D = output.output_buffer().dim(0).extent(), M = output.output_buffer().dim(1).extent();
    // As many accumulators as registers hold beside the weights; more than one pass over the samples if a head is wider.
    const int vectors = knobs.accumulators > 0 ? knobs.accumulators : std::min(64 / lanes, 8);
    Var qo{"qo"}, qi{"qi"}, task{"task"}, lane{"lane"}, vector{"vector"}, chunk{"chunk"};
    const auto by_vectors = [&](Stage stage) {
        stage.split(f.d, vector, lane, lanes, TailStrategy::GuardWithIf)
            .vectorize(lane)
            .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
            .unroll(vector);
    };

    output.split(f.q, qo, qi, extents.query_tile, TailStrategy::GuardWithIf);
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
        for (int width : kMsdaTapVectors) {
            if (width <= lanes) {
                f.head_taps.specialize(S % width == 0).vectorize(f.s, width).reorder(f.m, f.s);
            }
        }
        f.taps.compute_at(f.head_taps, f.q).hoist_storage(output, task);
    } else {
        f.taps.compute_at(output, task);
    }
    f.taps.bound(f.field, 0, kTapFields).bound(f.f, 0, M * S).reorder(f.f, f.field, f.q, f.b);
    f.taps.specialize(extents.check_cells);
    for (int width : kMsdaTapVectors) {
        if (width <= lanes) {
            f.taps.specialize(M * S % width == 0).vectorize(f.f, width).reorder(f.field, f.f).unroll(f.field);
        }
    }

    // What is added up stays in registers until it is complete.
    f.sum.compute_at(output, head_major ? qi : task).vectorize(f.d, lanes, TailStrategy::RoundUp);
    const auto by_chunks = [&](Stage stage) -> Stage {
        return stage.split(f.d, vector, lane, lanes, TailStrategy::RoundUp)
            .vectorize(lane)
            .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
            .unroll(vector);
    };
    by_chunks(f.sum.update());
    if (head_major) {
        f.sum.update().reorder(lane, vector, f.groups, chunk);
    } else {
        f.sum.update().reorder(lane, vector, chunk, f.m, f.q, f.groups, f.b);
    }
    by_chunks(f.of_group.compute_at(f.sum, chunk).store_in(MemoryType::Stack));
    RVar so{"so"}, si{"si"};
    const auto by_samples = [&](Stage stage, int number) {
        by_chunks(stage).split(f.samples, so, si, number).reorder(lane, vector, si, so, chunk).unroll(si);
    };
    for (int number = knobs.samples_at_once; number > 1; number /= 2) {
        f.sum.update().specialize(S % number == 0);
        by_samples(f.of_group.update().specialize(S % number == 0), number);
    }
    by_samples(f.of_group.update(), 1);

    if (extents.specialize_common_sizes) {
        for (const auto &[channels, samples] : kMsdaForwardCommonSizes) {
            output.specialize(samples > 0 ? D == channels && S == samples : D == channels);
        }
    }
}

Expr msda_forward_group(Traversal traversal, const Expr &num_samples, const MsdaForwardScheduleKnobs &knobs) {
    return traversal == Traversal::kHeadMajor ? num_samples : divisor(num_samples, knobs.samples_at_once);
}

}  // namespace deformkit
