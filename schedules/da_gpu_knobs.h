// Deformable aggregation on GPUs: its knobs.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_DA_FORWARD_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(group_points, 4, 1, 64, "points of an anchor whose taps, on all cameras and scales, are in shared memory at once") \
    HOST(block_threads, 256, 32, 1024, "threads of a block")

#define DEFORMKIT_DA_BACKWARD_SAMPLES_GPU_KNOBS(SCHEDULE, HOST) \
    HOST(block_threads, 384, 32, 1024, "threads of a block")

#define DEFORMKIT_DA_BACKWARD_LOCATIONS_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(threads, 128, 32, 1024, "threads of a block")

#define DEFORMKIT_DA_BACKWARD_VALUE_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(group_points, 4, 1, 64, "points of an anchor whose taps, on all cameras and scales, are in shared memory at once") \
    SCHEDULE(sector_channels, 8, 1, 32, "neighbouring channels that are added at once: 8 are a sector of memory") \
    SCHEDULE(channels_at_once, 4, 1, 32, "channels of a thread that the loop is unrolled for") \
    HOST(block_threads, 256, 32, 1024, "threads of a block")

#define DEFORMKIT_DA_BACKWARD_VALUE_IN_ORDER_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(group_points, 1, 1, 64, "points of an anchor whose taps, on all cameras and scales, are in shared memory at once") \
    SCHEDULE(share_cells, 32, 1, 1024, "cells of a thread, whose sums are in shared memory") \
    SCHEDULE(shares, 8, 1, 64, "threads of a block for each channel") \
    SCHEDULE(channels, 32, 1, 256, "channels of a block")
// clang-format on

DEFORMKIT_KNOBS(da_forward_gpu, DaForwardGpu, DEFORMKIT_DA_FORWARD_GPU_KNOBS)
DEFORMKIT_KNOBS(da_backward_samples_gpu, DaBackwardSamplesGpu, DEFORMKIT_DA_BACKWARD_SAMPLES_GPU_KNOBS)
DEFORMKIT_KNOBS(da_backward_locations_gpu, DaBackwardLocationsGpu, DEFORMKIT_DA_BACKWARD_LOCATIONS_GPU_KNOBS)
DEFORMKIT_KNOBS(da_backward_value_gpu, DaBackwardValueGpu, DEFORMKIT_DA_BACKWARD_VALUE_GPU_KNOBS)
DEFORMKIT_KNOBS(da_backward_value_in_order_gpu, DaBackwardValueInOrderGpu, DEFORMKIT_DA_BACKWARD_VALUE_IN_ORDER_GPU_KNOBS)

}  // namespace deformkit
