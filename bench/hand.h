// Calls the hand-written kernel for a whole problem, on one or more threads.
#pragma once

#include <cstdint>

#include "tests/support/workloads.h"

namespace deformkit::bench {

/// Whether this CPU runs the hand-written kernel and it is written for this shape.
bool hand_msda_supports(const testing::MsdaWorkload &workload);

/// All arrays dense, as the public header describes them. Only where hand_msda_supports().
void hand_msda_forward(const testing::MsdaWorkload &workload, const float *value, const int64_t *spatial_shapes,
                       const int64_t *level_start_index, const float *sampling_locations, const float *attention_weights,
                       float *output, int num_threads);

}  // namespace deformkit::bench
