#pragma once

#include "../generators/msda_forward.h"

namespace deformkit {

struct MsdaForwardCpuKnobs {
    int lanes;                ///< float32 lanes of a vector register
    Halide::Expr head_major;  ///< traversal: head by head instead of group of samples by group of samples
    Halide::Expr query_tile;  ///< queries per task
    Halide::Expr num_samples;
};

void schedule_msda_forward_cpu(MsdaForward &f, Halide::Func output, const MsdaForwardCpuKnobs &knobs);
void schedule_msda_forward_gpu(MsdaForward &f, Halide::Func output);

}  // namespace deformkit
