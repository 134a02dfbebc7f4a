#pragma once

#include "generators/algorithms/gka_passes.h"
#include "schedules/gka_knobs.h"

namespace deformkit {

struct GkaExtents {
    int lanes;  ///< of the type of arithmetic in a vector register
    Halide::Expr num_channels, num_samples;
    Halide::Expr check_cells;
};

void schedule_gka_cells_cpu(Halide::Func cells, const Halide::Var &i, const Halide::Var &q, const Halide::Var &b, int lanes,
                            const GkaCellsScheduleKnobs &knobs);
/// `query_tile`: queries of a head that one task takes.
void schedule_gka_forward_cpu(GkaForward &f, Halide::Func output, const Halide::Expr &query_tile, const GkaExtents &extents,
                              const GkaForwardScheduleKnobs &knobs);
void schedule_gka_backward_samples_cpu(GkaBackwardSamples &f, Halide::Func grad_weights, const Halide::Expr &query_tile,
                                       const GkaExtents &extents, const GkaBackwardSamplesScheduleKnobs &knobs);
void schedule_gka_backward_value_cpu(GkaBackwardValue &f, Halide::Func grad_value, bool in_place, const GkaExtents &extents,
                                     const GkaBackwardValueScheduleKnobs &knobs);

}  // namespace deformkit
