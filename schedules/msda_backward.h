#pragma once

#include "generators/algorithms/msda_backward.h"
#include "schedules/msda_knobs.h"

namespace deformkit {

struct MsdaBackwardExtents {
    int lanes;  ///< of the type of arithmetic in a vector register
    Halide::Expr num_channels, num_samples, check_cells;
};

void schedule_msda_backward_samples_cpu(MsdaBackwardSamples &f, Halide::Func grad_locations, const Halide::Func &grad_weights,
                                        const MsdaBackwardExtents &extents, const MsdaBackwardSamplesScheduleKnobs &knobs);
void schedule_msda_backward_value_cpu(MsdaBackwardValue &f, const MsdaBackwardExtents &extents,
                                      const MsdaBackwardValueScheduleKnobs &knobs);

}  // namespace deformkit
