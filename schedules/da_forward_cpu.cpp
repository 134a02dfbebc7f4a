#include <algorithm>

#include "schedules/da.h"
#include "schedules/da_forward.h"

namespace deformkit {

using namespace Halide;

// A task takes a tile of anchors, and goes through it map by map, so that the cells of one map at a time compete for L2. Sums
// stay in L2; those of one anchor are in registers while one map is read for it.
void schedule_da_forward_cpu(DaForward &f, Func output, const DaForwardExtents &extents, const DaForwardScheduleKnobs &knobs) {
    const int lanes = extents.lanes;
    const Expr D = output.output_buffer().dim(0).extent(), G = output.output_buffer().dim(1).extent();
    Var ao{"ao"}, ai{"ai"}, task{"task"}, vo{"vo"}, vi{"vi"};

    output.split(f.a, ao, ai, extents.anchor_tile, TailStrategy::GuardWithIf)
        .fuse(ao, f.b, task)
        .reorder(f.d, f.g, ai, task)
        .parallel(task)
        .vectorize(f.d, lanes, TailStrategy::GuardWithIf);
    f.total.compute_at(output, ai).vectorize(f.d, lanes, TailStrategy::RoundUp);
    f.total.update().reorder(f.d, f.g, f.parts.x).vectorize(f.d, lanes, TailStrategy::RoundUp);

    Var lane{"lane"}, vector{"vector"}, chunk{"chunk"}, go{"go"}, gi{"gi"};
    f.sum.compute_at(output, task).vectorize(f.d, lanes, TailStrategy::RoundUp);
    for_common_groups(f.sum.update(), D, G, lanes, knobs.accumulators, extents.check_cells,
                      [&](Stage stage, int vectors, int groups) {
                          stage.split(f.v, vo, vi, extents.part_tile, TailStrategy::GuardWithIf)
                              .split(f.d, vector, lane, lanes, TailStrategy::RoundUp)
                              .vectorize(lane)
                              .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
                              .unroll(vector)
                              .split(f.g, go, gi, groups, TailStrategy::GuardWithIf)
                              .unroll(gi)
                              .reorder(lane, vector, gi, f.samples.x, chunk, go, vi, f.samples.y, f.samples.z, vo, f.b)
                              .parallel(vo);
                      });

    schedule_da_visible(f.visible, LoopLevel(f.sum, vo), std::min(lanes, knobs.visible_vector));
    f.taps.compute_at(f.sum, vi)
        .store_in(MemoryType::Stack)
        .bound(f.field, 0, kCellFields)
        .reorder(f.field, f.p)
        .unroll(f.field)
        .vectorize(f.p, lanes, TailStrategy::RoundUp)
        .specialize(extents.check_cells);
}

}  // namespace deformkit
