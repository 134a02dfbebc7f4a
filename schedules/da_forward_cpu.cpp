#include <algorithm>

#include "da_forward.h"

namespace deformkit {

using namespace Halide;

// A task takes a tile of anchors, and goes through it map by map, so that the cells of one map at a time compete for L2. Sums
// stay in L2; those of one anchor on one map are in registers.
void schedule_da_forward_cpu(DaForward &f, Func output, const DaForwardCpuKnobs &knobs) {
    const int lanes = knobs.lanes;
    const Expr C = output.output_buffer().dim(0).extent();
    Var ao{"ao"}, ai{"ai"}, task{"task"}, vo{"vo"}, vi{"vi"}, pi{"pi"};

    output.split(f.a, ao, ai, knobs.anchor_tile, TailStrategy::GuardWithIf)
        .fuse(ao, f.b, task)
        .reorder(f.c, ai, task)
        .parallel(task)
        .vectorize(f.c, lanes, TailStrategy::GuardWithIf);
    f.total.compute_at(output, ai).vectorize(f.c, lanes, TailStrategy::RoundUp);
    f.total.update().reorder(f.c, f.parts.x).vectorize(f.c, lanes, TailStrategy::RoundUp);

    Var lane{"lane"}, vector{"vector"}, chunk{"chunk"};
    f.sum.compute_at(output, task).vectorize(f.c, lanes, TailStrategy::RoundUp);
    const auto schedule_update = [&](Stage stage, int vectors) {
        stage.split(f.v, vo, vi, knobs.part_tile, TailStrategy::GuardWithIf)
            .split(f.c, vector, lane, lanes, TailStrategy::RoundUp)
            .vectorize(lane)
            .split(vector, chunk, vector, vectors, TailStrategy::GuardWithIf)
            .unroll(vector)
            .reorder(lane, vector, f.samples.x, chunk, vi, f.samples.y, f.samples.z, vo, f.b)
            .parallel(vo);
    };
    for (int channels : kCommonGroups) {
        schedule_update(f.sum.update().specialize(knobs.channels_per_group == channels && C % (lanes * knobs.vectors) == 0), knobs.vectors);
    }
    schedule_update(f.sum.update().specialize(C % (4 * lanes) == 0), 4);
    schedule_update(f.sum.update(), 1);

    f.group.compute_at(f.sum, vo).vectorize(f.c, lanes, TailStrategy::RoundUp);
    f.visible.visible.compute_at(f.sum, vo).vectorize(f.visible.f, std::min(lanes, 8), TailStrategy::GuardWithIf);
    f.visible.slot.compute_at(f.sum, vo);
    f.visible.list.compute_at(f.sum, vo);
    f.taps.compute_at(f.sum, vi)
        .store_at(f.sum, vo)
        .bound(f.field, 0, kDaTapFields)
        .reorder(f.field, f.p)
        .unroll(f.field)
        .vectorize(f.p, lanes, TailStrategy::RoundUp);
    f.taps.specialize(knobs.careful);
}

}  // namespace deformkit
