// Deformable aggregation: its knobs, and the sizes that kernels have code of their own for.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_DA_FORWARD_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(accumulators, 0, 0, 32, "vectors of sums in registers; 0: half of what the target has") \
    SCHEDULE(visible_vector, 8, 1, 16, "points asked at once whether a camera sees them, of about a dozen") \
    HOST(most_task_anchors, 256, 1, 1 << 20, "anchors of a task, so that their sums stay in L2") \
    HOST(tiles_per_thread, 2, 1, 64, "tiles of anchors for each thread, where there are anchors enough") \
    HOST(few_anchors, 64, 0, 1 << 20, "where there are fewer, the points of one are shared out") \
    HOST(part_samples, 256, 1, 1 << 20, "samples of such a share, at least") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of feature maps: of so many batch items at a time")

#define DEFORMKIT_DA_BACKWARD_SAMPLES_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(groups_at_once, 4, 1, 8, "groups whose dot products with four cells are taken together") \
    SCHEDULE(weights_vector, 8, 1, 16, "groups of grad_weights that are written together") \
    SCHEDULE(visible_vector, 8, 1, 16, "points asked at once whether a camera sees them")

// Host knobs of the whole backward.
#define DEFORMKIT_DA_BACKWARD_VALUE_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(accumulators, 8, 1, 32, "vectors of an anchor's gradient in registers, for four cells each") \
    SCHEDULE(visible_vector, 8, 1, 16, "points asked at once whether a camera sees them") \
    HOST(task_bytes, 512 << 10, 1, 1024 << 20, "what samples of a task leave before it is written: stays in L2") \
    HOST(tasks_per_thread, 4, 1, 64, "tasks for each thread, so that all end at about the same time") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of feature maps: of so many batch items at a time") \
    HOST(streaming_bytes, 4 << 20, 0, 1024 << 20, "gradients as large as this are written past the caches")
// clang-format on

DEFORMKIT_KNOBS(da_forward, DaForward, DEFORMKIT_DA_FORWARD_KNOBS)
DEFORMKIT_KNOBS(da_backward_samples, DaBackwardSamples, DEFORMKIT_DA_BACKWARD_SAMPLES_KNOBS)
DEFORMKIT_KNOBS(da_backward_value, DaBackwardValue, DEFORMKIT_DA_BACKWARD_VALUE_KNOBS)

/// Channels of a group, and groups that loops unroll over; 0: as many as the accumulators hold.
struct DaCommonSize {
    int channels, groups;
};
constexpr DaCommonSize kDaCommonSizes[] = {{32, 0}, {32, 2}, {16, 0}, {64, 0}};

}  // namespace deformkit
