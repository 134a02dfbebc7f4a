#include <algorithm>

#include "schedules/gka.h"

namespace deformkit {

using namespace Halide;

namespace {

constexpr int kQueries = 64;  // taps of so many at a time: a few KiB

/// Vectors along a query's samples: a dozen or two of them. Checks of every key only where they are needed.
void vectorize_samples(Stage stage, const Var &s, int lanes, const Expr &extent, const Expr &careful) {
    for (int width : {16, 8, 4}) {
        if (width <= lanes) {
            stage.specialize(!careful && extent % width == 0).vectorize(s, width);
        }
    }
    stage.vectorize(s, std::min(lanes, 4), TailStrategy::GuardWithIf);
}

}  // namespace

// One call is one head, whose cells stay in L2 from query to query; the sums of a query are in registers.
void schedule_gka_forward_cpu(GkaForward &f, Func output, const GkaCpuKnobs &knobs) {
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples, D = knobs.num_channels;
    Var qo{"qo"}, qi{"qi"}, v{"v"}, l{"l"}, chunk{"chunk"};
    output.split(f.q, qo, qi, kQueries, TailStrategy::GuardWithIf)
        .reorder(f.d, qi, qo)
        .vectorize(f.d, lanes, TailStrategy::GuardWithIf);

    f.taps.compute_at(output, qo).store_in(MemoryType::Stack).bound(f.s, 0, S).bound(f.field, 0, GkaForward::kFields);
    f.taps.reorder(f.field, f.s, f.q).unroll(f.field);
    vectorize_samples(f.taps, f.s, lanes, S, knobs.careful);
    f.lowest.compute_at(output, qo).store_in(MemoryType::Stack);
    f.lowest.update().specialize(S % 4 == 0).atomic().vectorize(f.all_samples, 4);

    f.sum.compute_at(output, qi).store_in(MemoryType::Stack).vectorize(f.d, lanes, TailStrategy::RoundUp);
    RVar so{"so"}, si{"si"};
    const auto schedule_sum = [&](Stage stage, int group) {
        stage.split(f.d, v, l, lanes, TailStrategy::RoundUp)
            .vectorize(l)
            .split(v, chunk, v, std::min(64 / lanes, 8), TailStrategy::GuardWithIf)
            .unroll(v)
            .split(f.samples, so, si, group)
            .reorder(l, v, si, so, chunk)
            .unroll(si);
    };
    schedule_sum(f.sum.update(0).specialize(S % 4 == 0), 4);
    schedule_sum(f.sum.update(0), 1);
    f.sum.update(1).reorder(f.d, f.some_samples).vectorize(f.d, lanes, TailStrategy::RoundUp);

    // Channels of common models: loops over vectors unroll and tails vanish.
    output.specialize(D == 32 && S == 16);
    for (int channels : {32, 16, 64}) {
        output.specialize(D == channels);
    }
}

// One call is one head. Dot products are taken eight samples at a time: sums a vector wide, stored beside each other and added
// up by transposing.
void schedule_gka_backward_samples_cpu(GkaBackwardSamples &f, Func grad_weights, const GkaCpuKnobs &knobs) {
    const int lanes = knobs.lanes;
    const Expr S = knobs.num_samples, D = knobs.num_channels;
    Var qo{"qo"}, qi{"qi"}, so{"so"}, si{"si"}, u{"u"};
    RVar v{"v"}, lane{"lane"};
    f.positions.compute_at(grad_weights, qo).store_in(MemoryType::Stack).bound(f.s, 0, S);
    vectorize_samples(f.positions, f.s, lanes, S, knobs.careful);

    f.dot.update().split(f.channels, v, lane, lanes);
    Func partial = f.dot.update().rfactor(lane, u);
    f.dot.compute_at(grad_weights, so).vectorize(f.s);
    f.dot.update().reorder(lane, f.s, f.q).atomic().vectorize(lane).vectorize(f.s);
    partial.compute_at(grad_weights, so).reorder_storage(u, f.s, f.q).bound(u, 0, lanes).vectorize(u).unroll(f.s);
    partial.update().reorder(u, f.s, v, f.q).vectorize(u).unroll(f.s);

    const auto schedule = [&](Stage stage, int group) {
        stage.split(f.q, qo, qi, kQueries, TailStrategy::GuardWithIf)
            .split(f.s, so, si, group, TailStrategy::RoundUp)  // known to divide
            .reorder(si, so, qi, qo)
            .vectorize(si);
    };
    grad_weights.bound(f.s, 0, S);
    schedule(grad_weights.specialize(D == 32 && S % 8 == 0), 8);
    schedule(grad_weights.specialize(S % 4 == 0), 4);
    schedule(grad_weights, 1);
}

// One call is one head.
void schedule_gka_backward_value_cpu(GkaBackwardValue &f, const GkaCpuKnobs &knobs) {
    const int lanes = knobs.lanes;
    Var v{"v"}, l{"l"}, chunk{"chunk"};
    RVar qo{"qo"}, qi{"qi"};
    const auto schedule_scatter = [&](Stage stage, int vectors) {
        stage.split(f.d, v, l, lanes, TailStrategy::RoundUp)
            .vectorize(l)
            .split(v, chunk, v, vectors, TailStrategy::GuardWithIf)
            .unroll(v)
            .split(f.samples.y, qo, qi, kQueries, TailStrategy::GuardWithIf)
            .reorder(l, v, f.samples.x, chunk, qi, qo);
    };
    for (int channels : {32, 16, 64}) {
        schedule_scatter(f.slab.update().specialize(knobs.num_channels == channels),
                         std::max(1, std::min(channels / lanes, 8)));
    }
    schedule_scatter(f.slab.update(), 1);

    f.cells.compute_at(f.slab, qo).store_in(MemoryType::Stack).bound(f.s, 0, knobs.num_samples);
    vectorize_samples(f.cells, f.s, lanes, knobs.num_samples, knobs.careful);
}

}  // namespace deformkit
