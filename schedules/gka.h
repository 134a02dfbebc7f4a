#pragma once

#include "generators/algorithms/gka_passes.h"

namespace deformkit {

struct GkaCpuKnobs {
    int lanes;  ///< of the type of arithmetic in a vector register
    Halide::Expr num_channels, num_samples;
    Halide::Expr careful;
};

void schedule_gka_forward_cpu(GkaForward &f, Halide::Func output, const GkaCpuKnobs &knobs);
void schedule_gka_backward_samples_cpu(GkaBackwardSamples &f, Halide::Func grad_weights, const GkaCpuKnobs &knobs);
void schedule_gka_backward_value_cpu(GkaBackwardValue &f, const GkaCpuKnobs &knobs);

}  // namespace deformkit
