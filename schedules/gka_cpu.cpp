#include <algorithm>

#include "gka.h"

namespace deformkit {

using namespace Halide;

namespace {

/// Whole vectors where that is known; checks of every key only where they are needed.
void vectorize_samples(Stage stage, const Var &f, int lanes, const Expr &extent, const Expr &careful) {
    stage.specialize(!careful && extent % lanes == 0).vectorize(f, lanes);
    stage.specialize(!careful).vectorize(f, lanes, TailStrategy::GuardWithIf);
    stage.vectorize(f, lanes, TailStrategy::GuardWithIf);
}

}  // namespace

// A task takes a tile of queries: taps first, in the order of memory, then the sums head by head, so that one head's cells at a
// time compete for the caches, then the output in the order of memory again.
void schedule_gka_forward_cpu(GkaForward &f, Func output, const GkaCpuKnobs &knobs, const Expr &query_tile) {
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples, D = knobs.num_channels, M = output.output_buffer().dim(1).extent();
    Var qo{"qo"}, qi{"qi"}, task{"task"};
    output.split(f.q, qo, qi, query_tile, TailStrategy::GuardWithIf)
        .fuse(qo, f.b, task)
        .reorder(f.d, f.m, qi, task)
        .parallel(task)
        .vectorize(f.d, lanes, TailStrategy::GuardWithIf);

    f.taps.compute_at(output, task).bound(f.f, 0, M * S).bound(f.field, 0, GkaForward::kFields);
    f.taps.reorder_storage(f.f, f.field, f.q, f.b).reorder(f.field, f.f, f.q, f.b).unroll(f.field);
    vectorize_samples(f.taps, f.f, lanes, M * S, knobs.careful);
    RVar vector{"vector"}, lane{"lane"};
    f.lowest.compute_at(output, task).update().atomic().vectorize(f.query_samples, lanes, TailStrategy::GuardWithIf);

    Var v{"v"}, l{"l"}, chunk{"chunk"};
    Func complete = f.sum.in();
    complete.compute_at(output, task)
        .reorder_storage(f.d, f.q, f.m, f.b)
        .reorder(f.d, f.q, f.m, f.b)
        .vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.sum.compute_at(complete, f.q).vectorize(f.d, lanes, TailStrategy::RoundUp);
    const auto schedule_sum = [&](Stage stage, int vectors, int group) {
        RVar so{"so"}, si{"si"};
        stage.split(f.d, v, l, lanes, TailStrategy::RoundUp)
            .vectorize(l)
            .split(v, chunk, v, vectors, TailStrategy::GuardWithIf)
            .unroll(v)
            .split(f.samples, so, si, group, TailStrategy::GuardWithIf)
            .reorder(l, v, si, so, chunk)
            .unroll(si);
    };
    for (int channels : {32, 16, 64}) {
        const int vectors = std::max(1, std::min(channels / lanes, 8));
        schedule_sum(f.sum.update(0).specialize(D == channels && S % 4 == 0), vectors, 4);
    }
    schedule_sum(f.sum.update(0), 1, 1);
    f.sum.update(1).reorder(f.d, f.some_samples).vectorize(f.d, lanes, TailStrategy::RoundUp);
    output.specialize(D == 32);
}

// One call is some queries. Dot products are taken four samples at a time: four sums, each a vector wide, are stored beside each
// other and added up by transposing.
void schedule_gka_backward_samples_cpu(GkaBackwardSamples &f, Func grad_weights, const GkaCpuKnobs &knobs) {
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples, D = knobs.num_channels, row = grad_weights.output_buffer().dim(0).extent();
    f.positions.compute_root();
    vectorize_samples(f.positions, f.f, lanes, row, knobs.careful);

    RVar so{"so"}, si{"si"}, v{"v"}, lane{"lane"};
    Var u{"u"};
    f.dots.compute_root();
    const auto schedule_dots = [&](Stage stage, int group) {
        stage.allow_race_conditions()  // there are none: samples have places of their own
            .split(f.head_samples.x, so, si, group)
            .reorder(si, so, f.q, f.head_samples.y, f.b)
            .vectorize(si);
    };
    schedule_dots(f.dots.update().specialize(D == 32 && S % 8 == 0), 8);
    schedule_dots(f.dots.update().specialize(S % 4 == 0), 4);
    schedule_dots(f.dots.update(), 1);

    f.dot.update().split(f.channels, v, lane, lanes);
    Func partial = f.dot.update().rfactor(lane, u);
    f.dot.compute_at(f.dots, so).vectorize(f.s);
    f.dot.update().reorder(lane, f.s).atomic().vectorize(lane).vectorize(f.s);
    partial.compute_at(f.dots, so).reorder_storage(u, f.s).bound(u, 0, lanes).vectorize(u).unroll(f.s);
    partial.update().reorder(u, f.s, v).vectorize(u).unroll(f.s);

    vectorize_samples(grad_weights, f.f, lanes, row, knobs.careful);
}

// One call is one level of one head.
void schedule_gka_backward_value_cpu(GkaBackwardValue &f, const GkaCpuKnobs &knobs) {
    const int lanes = knobs.lanes;
    constexpr int kQueries = 64;  // cells of so many at a time: a few KiB
    Var v{"v"}, l{"l"}, chunk{"chunk"};
    RVar qo{"qo"}, qi{"qi"};
    f.slab.update(0).vectorize(f.d, lanes, TailStrategy::RoundUp);
    const auto schedule_scatter = [&](Stage stage, int vectors) {
        stage.split(f.d, v, l, lanes, TailStrategy::RoundUp)
            .vectorize(l)
            .split(v, chunk, v, vectors, TailStrategy::GuardWithIf)
            .unroll(v)
            .split(f.samples.y, qo, qi, kQueries, TailStrategy::GuardWithIf)
            .reorder(l, v, f.samples.x, chunk, qi, qo);
    };
    for (int channels : {32, 16, 64}) {
        schedule_scatter(f.slab.update(1).specialize(knobs.num_channels == channels),
                         std::max(1, std::min(channels / lanes, 8)));
    }
    schedule_scatter(f.slab.update(1), 1);

    f.cells.compute_at(f.slab, qo).store_in(MemoryType::Stack);
    for (int points : {4, 8}) {
        f.cells.specialize(!knobs.careful && knobs.num_samples == points).vectorize(f.p, points);
    }
    f.cells.specialize(!knobs.careful).vectorize(f.p, 4, TailStrategy::GuardWithIf);
}

}  // namespace deformkit
