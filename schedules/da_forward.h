#pragma once

#include "generators/algorithms/da_forward.h"
#include "schedules/da_knobs.h"

namespace deformkit {

struct DaForwardExtents {
    int lanes;                 ///< of the type of arithmetic in a vector register
    Halide::Expr anchor_tile;  ///< anchors per task
    Halide::Expr part_tile;    ///< anchors' parts per task within
    Halide::Expr check_cells;
};

void schedule_da_forward_cpu(DaForward &f, Halide::Func output, const DaForwardExtents &extents,
                             const DaForwardScheduleKnobs &knobs);

}  // namespace deformkit
