#include "schedules/msda_backward.h"

namespace deformkit {

using namespace Halide;

namespace {

/// Vectors along the samples of all heads; whole ones only where that is known. Checks of every key only where they are needed.
void vectorize_samples(Stage stage, const Var &f, const MsdaBackwardExtents &extents, const Expr &row) {
    stage.specialize(!extents.check_cells && row % extents.lanes == 0).vectorize(f, extents.lanes);
    stage.specialize(!extents.check_cells).vectorize(f, extents.lanes, TailStrategy::GuardWithIf);
    stage.vectorize(f, extents.lanes, TailStrategy::GuardWithIf);
}

}  // namespace

// One call is one block of queries. Dot products are taken four samples with four cells each at a time: sixteen sums, each a
// vector wide, are stored beside each other and added up by transposing, about two shuffles for a dot product.
void schedule_msda_backward_samples_cpu(MsdaBackwardSamples &f, Func grad_locations, const Func &grad_weights,
                                        const MsdaBackwardExtents &extents, const MsdaBackwardSamplesScheduleKnobs &knobs) {
    const int lanes = extents.lanes;
    const Expr S = extents.num_samples, D = extents.num_channels;
    const Expr row = grad_weights.output_buffer().dim(0).extent();

    f.positions.compute_root().bound(f.c, 0, 4).reorder_storage(f.f, f.c, f.x, f.y).reorder(f.c, f.f, f.x, f.y).unroll(f.c);
    vectorize_samples(f.positions, f.f, extents, row);

    RVar so{"so"}, si{"si"}, v{"v"}, lane{"lane"};
    Var u{"u"};
    f.dots.compute_root().bound(f.c, 0, 4).reorder_storage(f.f, f.c, f.x, f.y);
    const auto schedule_dots = [&](Stage stage, int group) {
        stage
            .allow_race_conditions()  // there are none: samples have places of their own
            .split(f.head_samples.x, so, si, group)
            .reorder(si, f.c, so, f.x, f.y, f.head_samples.y)
            .vectorize(si)
            .unroll(f.c);
    };
    const int most = knobs.samples_at_once;
    for (const auto &[channels, samples] : kMsdaBackwardSamplesCommonSizes) {
        if (samples % most == 0) {
            const Expr fits = samples > 0 ? S == samples : S % most == 0;
            schedule_dots(f.dots.update().specialize(D == channels && fits), most);
        }
    }
    for (int number = most; number > 1; number /= 2) {
        schedule_dots(f.dots.update().specialize(S % number == 0), number);
    }
    schedule_dots(f.dots.update(), 1);

    f.dot.update().split(f.channels.x, v, lane, lanes);
    Func partial = f.dot.update().rfactor(lane, u);
    f.dot.compute_at(f.dots, so).store_in(MemoryType::Stack).bound(f.c, 0, 4);
    f.dot.vectorize(f.s).unroll(f.c);
    f.dot.update().reorder(lane, f.s, f.c).atomic().vectorize(lane).vectorize(f.s).unroll(f.c);
    partial.compute_at(f.dots, so)
        .store_in(MemoryType::Stack)
        .reorder_storage(u, f.s, f.c)
        .bound(u, 0, lanes)
        .vectorize(u)
        .unroll(f.s)
        .unroll(f.c);
    partial.update().reorder(u, f.s, f.c, v).vectorize(u).unroll(f.s).unroll(f.c);

    grad_locations.bound(f.xy, 0, 2).reorder(f.xy, f.f, f.x, f.y).unroll(f.xy);
    vectorize_samples(grad_locations, f.f, extents, row);
    vectorize_samples(grad_weights, f.f, extents, row);
}

// One call is what some queries add to a slab of cells.
void schedule_msda_backward_value_cpu(MsdaBackwardValue &f, const MsdaBackwardExtents &extents,
                                      const MsdaBackwardValueScheduleKnobs &knobs) {
    const int lanes = extents.lanes;
    const Expr S = extents.num_samples, D = extents.num_channels;

    RVar qo{"qo"}, qi{"qi"}, so{"so"}, si{"si"};
    Var vector{"vector"}, lane{"lane"}, chunk{"chunk"};
    const auto schedule_scatter = [&](Stage stage, int group) {
        stage.split(f.d, vector, lane, lanes, TailStrategy::RoundUp)
            .vectorize(lane)
            .split(vector, chunk, vector, knobs.accumulators, TailStrategy::GuardWithIf)
            .unroll(vector)
            .split(f.corners.z, qo, qi, knobs.tap_queries, TailStrategy::GuardWithIf)
            .split(f.corners.y, so, si, group)
            .reorder(lane, vector, f.corners.x, si, so, chunk, qi, qo)
            .unroll(f.corners.x)
            .unroll(si);
    };
    const int most = knobs.samples_at_once;
    for (const auto &[channels, samples] : kMsdaBackwardValueCommonSizes) {
        if (samples % most == 0) {
            schedule_scatter(f.slab.update().specialize(D == channels && S == samples), most);
        }
    }
    schedule_scatter(f.slab.update().specialize(S % most == 0), most);
    schedule_scatter(f.slab.update(), 1);

    f.taps.compute_at(f.slab, qo).hoist_storage_root();
    f.taps.bound(f.field, 0, kTapFields).reorder(f.field, f.f).unroll(f.field);
    f.taps.specialize(!extents.check_cells).vectorize(f.f, lanes, TailStrategy::GuardWithIf);
    f.taps.vectorize(f.f, lanes, TailStrategy::GuardWithIf);
}

}  // namespace deformkit
