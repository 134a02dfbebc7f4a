#pragma once

#include "generators/algorithms/da_backward.h"
#include "schedules/da_knobs.h"

namespace deformkit {

struct DaBackwardExtents {
    int lanes;  ///< of the type of arithmetic in a vector register
    Halide::Expr num_channels, num_groups;
    Halide::Expr check_cells;
};

void schedule_da_backward_samples_cpu(DaBackwardSamples &f, Halide::Func grad_locations, Halide::Func grad_weights,
                                      const DaBackwardExtents &extents, const DaBackwardSamplesScheduleKnobs &knobs);
void schedule_da_backward_value_cpu(DaBackwardValue &f, const DaBackwardExtents &extents,
                                    const DaBackwardValueScheduleKnobs &knobs);

}  // namespace deformkit
