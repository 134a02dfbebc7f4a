#pragma once

#include "generators/algorithms/da_forward.h"

namespace deformkit {

struct DaForwardCpuKnobs {
    int lanes;                 ///< of the type of arithmetic in a vector register
    int accumulators;          ///< vectors that the registers hold beside the taps
    Halide::Expr anchor_tile;  ///< anchors per task
    Halide::Expr part_tile;    ///< anchors' parts per task within
    Halide::Expr careful;
};

void schedule_da_forward_cpu(DaForward &f, Halide::Func output, const DaForwardCpuKnobs &knobs);

}  // namespace deformkit
