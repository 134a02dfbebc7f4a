#include <algorithm>

#include "schedules/gka.h"

namespace deformkit {

using namespace Halide;

namespace {

/// Vectors along a query's samples: a dozen or two of them. Checks of every key only where they are needed.
void vectorize_samples(Stage stage, const Var &s, int most, const GkaExtents &extents) {
    for (int width = std::min(extents.lanes, most); width >= 4; width /= 2) {
        stage.specialize(!extents.check_cells && extents.num_samples % width == 0).vectorize(s, width);
    }
    stage.vectorize(s, std::min(extents.lanes, 4), TailStrategy::GuardWithIf);
}

/// A task is a tile of queries of one head, which go over that head's cells, in L2, again and again.
struct Tasks {
    Var tile{"tile"}, in_tile{"in_tile"}, qo{"qo"}, qi{"qi"}, head{"head"}, task{"task"};

    void divide(Stage stage, const Var &q, const Var &m, const Var &b, const Expr &query_tile, int tap_queries) const {
        stage.split(q, tile, in_tile, query_tile, TailStrategy::GuardWithIf)
            .split(in_tile, qo, qi, tap_queries, TailStrategy::GuardWithIf)
            .fuse(tile, m, head)
            .fuse(head, b, task)
            .parallel(task);
    }
};

}  // namespace

// In the order of memory.
void schedule_gka_cells_cpu(Func cells, const Var &i, const Var &q, const Var &b, int lanes,
                            const GkaCellsScheduleKnobs &knobs) {
    Var qo{"qo"}, task{"task"};
    cells.vectorize(i, lanes, TailStrategy::GuardWithIf)
        .split(q, qo, q, knobs.task_queries, TailStrategy::GuardWithIf)
        .fuse(qo, b, task)
        .parallel(task);
}

// The sums of a query are in registers.
void schedule_gka_forward_cpu(GkaForward &f, Func output, const Expr &query_tile, const GkaExtents &extents,
                              const GkaForwardScheduleKnobs &knobs) {
    const int lanes = extents.lanes, accumulators = knobs.accumulators == 0 ? std::min(64 / lanes, 8) : knobs.accumulators;
    const Expr S = extents.num_samples, D = extents.num_channels;
    Var v{"v"}, l{"l"}, chunk{"chunk"};
    const Tasks tasks;
    output.reorder(f.d, f.q, f.m, f.b);
    tasks.divide(output, f.q, f.m, f.b, query_tile, knobs.tap_queries);
    output.vectorize(f.d, lanes, TailStrategy::GuardWithIf);

    f.taps.compute_at(output, tasks.qo).store_in(MemoryType::Stack).bound(f.s, 0, S).bound(f.field, 0, GkaForward::kFields);
    f.taps.reorder(f.field, f.s, f.q).unroll(f.field);
    vectorize_samples(f.taps, f.s, knobs.tap_samples, extents);
    f.lowest.compute_at(output, tasks.qo).store_in(MemoryType::Stack);
    f.lowest.update().specialize(S % 4 == 0).atomic().vectorize(f.all_samples, 4);

    f.sum.compute_at(output, tasks.qi).store_in(MemoryType::Stack).vectorize(f.d, lanes, TailStrategy::RoundUp);
    RVar so{"so"}, si{"si"};
    const auto schedule_sum = [&](Stage stage, int group) {
        stage.split(f.d, v, l, lanes, TailStrategy::RoundUp)
            .vectorize(l)
            .split(v, chunk, v, accumulators, TailStrategy::GuardWithIf)
            .unroll(v)
            .split(f.samples, so, si, group)
            .reorder(l, v, si, so, chunk)
            .unroll(si);
    };
    schedule_sum(f.sum.update(0).specialize(S % knobs.samples_at_once == 0), knobs.samples_at_once);
    schedule_sum(f.sum.update(0), 1);
    f.sum.update(1).reorder(f.d, f.some_samples).vectorize(f.d, lanes, TailStrategy::RoundUp);

    for (const GkaCommonSize &common : kGkaCommonSizes) {
        // Unrolled, or else the compiler stores a query's sums by `rep movs` where vectors have 4 lanes: 1.05x to 1.1x the time
        // (gka_example, float32, 2-core EPYC).
        output.specialize(D == common.channels && (common.samples == 0 || S == common.samples)).unroll(f.d);
    }
}

// Dot products are taken some samples at a time: sums a vector wide, stored beside each other and added up by transposing.
void schedule_gka_backward_samples_cpu(GkaBackwardSamples &f, Func grad_weights, const Expr &query_tile,
                                       const GkaExtents &extents, const GkaBackwardSamplesScheduleKnobs &knobs) {
    const Expr S = extents.num_samples;
    Var so{"so"}, si{"si"};
    const Tasks tasks;
    f.positions.compute_at(grad_weights, tasks.qo).store_in(MemoryType::Stack).bound(f.s, 0, S);
    vectorize_samples(f.positions, f.s, knobs.tap_samples, extents);

    f.dot.compute_at(grad_weights, so).vectorize(f.s);
    f.dot.update().reorder(f.lanes, f.s, f.q).atomic().vectorize(f.lanes).vectorize(f.s);
    f.partial.compute_at(grad_weights, so).bound(f.lane, 0, extents.lanes).vectorize(f.lane).unroll(f.s);
    f.partial.update().reorder(f.lane, f.s, f.vectors, f.q).vectorize(f.lane).unroll(f.s);

    const auto schedule = [&](Stage stage, int group) {
        stage
            .split(f.s, so, si, group, TailStrategy::RoundUp)  // known to divide
            .reorder(si, so, f.q, f.m, f.b)
            .vectorize(si);
        tasks.divide(stage, f.q, f.m, f.b, query_tile, knobs.tap_queries);
    };
    grad_weights.bound(f.s, 0, S);
    const Expr is_common = extents.num_channels == kGkaCommonSizes[0].channels;
    schedule(grad_weights.specialize(is_common && S % knobs.common_dots_at_once == 0), knobs.common_dots_at_once);
    schedule(grad_weights.specialize(S % knobs.dots_at_once == 0), knobs.dots_at_once);
    schedule(grad_weights, 1);
}

// A task is a head.
void schedule_gka_backward_value_cpu(GkaBackwardValue &f, Func grad_value, bool in_place, const GkaExtents &extents,
                                     const GkaBackwardValueScheduleKnobs &knobs) {
    const int lanes = extents.lanes;
    const Expr D = extents.num_channels;
    Var v{"v"}, l{"l"}, chunk{"chunk"}, task{"task"};
    RVar qo{"qo"}, qi{"qi"};
    const auto schedule_scatter = [&](Stage stage, int vectors) {
        stage.split(f.d, v, l, lanes, TailStrategy::RoundUp)
            .vectorize(l)
            .split(v, chunk, v, vectors, TailStrategy::GuardWithIf)
            .unroll(v)
            .split(f.samples.y, qo, qi, knobs.tap_queries, TailStrategy::GuardWithIf)
            .reorder(l, v, f.samples.x, chunk, qi, qo, f.m, f.b);
        if (in_place) {
            stage.fuse(f.m, f.b, task).parallel(task);
        }
    };
    for (const GkaCommonSize &common : kGkaCommonSizes) {
        if (common.samples == 0) {
            schedule_scatter(f.slab.update().specialize(D == common.channels),
                             std::max(1, std::min(common.channels / lanes, knobs.vectors_at_once)));
        }
    }
    schedule_scatter(f.slab.update(), 1);

    if (!in_place) {
        const int common = kGkaCommonSizes[0].channels;
        grad_value.reorder(f.d, f.cell, f.m, f.b)
            .vectorize(f.d, lanes, TailStrategy::GuardWithIf)
            .fuse(f.m, f.b, task)
            .parallel(task);
        grad_value.specialize(grad_value.output_buffer().dim(0).extent() == common).unroll(f.d);
        f.slab.compute_at(grad_value, task).bound(f.d, 0, D).vectorize(f.d, lanes, TailStrategy::RoundUp);
        f.slab.specialize(D == common).unroll(f.d);
    }

    f.cells.compute_at(f.slab, qo).store_in(MemoryType::Stack).bound(f.s, 0, extents.num_samples);
    vectorize_samples(f.cells, f.s, knobs.tap_samples, extents);
}

}  // namespace deformkit
