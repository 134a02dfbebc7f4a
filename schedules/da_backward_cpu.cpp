#include <algorithm>

#include "schedules/da.h"
#include "schedules/da_backward.h"

namespace deformkit {

using namespace Halide;

// One call is one camera and a tile of anchors, map by map. For each sample the dot products of some groups with four cells are
// taken at a time: sums, each a vector wide, stored beside each other and added up by transposing.
void schedule_da_backward_samples_cpu(DaBackwardSamples &f, Func grad_locations, Func grad_weights,
                                      const DaBackwardExtents &extents, const DaBackwardSamplesScheduleKnobs &knobs) {
    const int lanes = extents.lanes;
    schedule_da_visible(f.visible, LoopLevel::root(), std::min(lanes, knobs.visible_vector));

    f.grads.compute_root().bound(f.g, 0, extents.num_groups);
    f.grads.update().reorder(f.g, f.samples.x, f.v, f.samples.y);
    f.taps.compute_at(f.grads, f.v)
        .store_in(MemoryType::Stack)
        .bound(f.field, 0, DaBackwardSamples::kFields)
        .reorder(f.field, f.p)
        .unroll(f.field)
        .vectorize(f.p, lanes, TailStrategy::RoundUp)
        .specialize(extents.check_cells);

    RVar vector{"vector"}, lane{"lane"};
    Var u{"u"}, go{"go"}, gi{"gi"};
    f.dot.update().split(f.channels, vector, lane, lanes);
    Func partial = f.dot.update().rfactor(lane, u);
    for (Func *each : {&partial, &f.dot}) {
        each->compute_at(f.grads, f.samples.x).store_in(MemoryType::Stack).bound(f.g, 0, extents.num_groups).bound(f.c, 0, 4);
    }
    partial.reorder_storage(u, f.g, f.c).bound(u, 0, lanes).vectorize(u).reorder(u, f.c, f.g).unroll(f.c);
    f.dot.reorder_storage(f.g, f.c)
        .reorder(f.g, f.c)
        .specialize(extents.num_groups % knobs.groups_at_once == 0)
        .vectorize(f.g, knobs.groups_at_once);

    const auto by_groups = [&](Expr condition, int groups) {
        const auto specialized = [&](Stage stage) { return condition.defined() ? stage.specialize(condition) : stage; };
        specialized(partial.update())
            .split(f.g, go, gi, groups, TailStrategy::GuardWithIf)
            .reorder(u, gi, f.c, vector, go)
            .vectorize(u)
            .unroll(gi)
            .unroll(f.c);
        specialized(f.dot.update())
            .split(f.g, go, gi, groups, TailStrategy::GuardWithIf)
            .reorder(lane, gi, f.c, go)
            .atomic()
            .vectorize(lane)
            .vectorize(gi)
            .unroll(f.c);
        specialized(f.grads.update()).vectorize(f.g, groups, TailStrategy::RoundUp);
    };
    const Expr whole = extents.num_groups % knobs.groups_at_once == 0;
    by_groups(extents.num_channels == kDaCommonSizes[0].channels && whole, knobs.groups_at_once);
    by_groups(whole, knobs.groups_at_once);
    by_groups(Expr(), 1);

    f.location.compute_root().update().reorder(f.scales.x, f.scales.y, f.p, f.v);
    grad_locations.bound(f.xy, 0, 2).reorder(f.xy, f.p, f.v).unroll(f.xy);
    grad_weights.bound(f.g, 0, extents.num_groups)
        .specialize(extents.num_groups % knobs.weights_vector == 0)
        .vectorize(f.g, knobs.weights_vector);
}

// One call is one map. An anchor's gradient times the weights of a sample is formed once for the four cells that take it.
void schedule_da_backward_value_cpu(DaBackwardValue &f, const DaBackwardExtents &extents,
                                    const DaBackwardValueScheduleKnobs &knobs) {
    const int lanes = extents.lanes;
    Var lane{"lane"}, vector{"vector"}, chunk{"chunk"}, go{"go"}, gi{"gi"};
    for_common_groups(f.slab.update(), extents.num_channels, extents.num_groups, lanes, knobs.accumulators, extents.check_cells,
                      [&](Stage stage, int vectors, int groups) {
                          stage.split(f.d, vector, lane, lanes, TailStrategy::RoundUp)
                              .vectorize(lane)
                              .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
                              .unroll(vector)
                              .split(f.g, go, gi, groups, TailStrategy::GuardWithIf)
                              .unroll(gi)
                              .reorder(lane, f.corners.x, vector, gi, f.corners.y, chunk, go, f.corners.z)
                              .unroll(f.corners.x);
                      });
    schedule_da_visible(f.visible, LoopLevel(f.slab, f.corners.z), std::min(lanes, knobs.visible_vector));
    f.taps.compute_at(f.slab, f.corners.z)
        .store_in(MemoryType::Stack)
        .bound(f.field, 0, kCellFields)
        .reorder(f.field, f.p)
        .unroll(f.field)
        .vectorize(f.p, lanes, TailStrategy::RoundUp)
        .specialize(extents.check_cells);
}

}  // namespace deformkit
