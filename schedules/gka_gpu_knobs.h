// Geometric kernel attention on GPUs: its knobs.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_GKA_CELLS_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(threads, 256, 32, 1024, "threads of a block")

#define DEFORMKIT_GKA_FORWARD_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(group_samples, 16, 1, 64, "samples of a query and head whose taps are in shared memory at once") \
    SCHEDULE(samples_at_once, 4, 1, 16, "samples that the loop is unrolled for, a divisor of those") \
    HOST(block_threads, 256, 32, 1024, "threads of a block")

#define DEFORMKIT_GKA_BACKWARD_SAMPLES_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(group_samples, 16, 1, 64, "samples of a query and head whose dot products are in shared memory at once") \
    HOST(block_threads, 256, 32, 1024, "threads of a block") \
    HOST(most_lanes, 32, 1, 1024, "threads that share a dot product, at most")

#define DEFORMKIT_GKA_BACKWARD_VALUE_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(group_samples, 16, 1, 64, "samples of a query and head whose taps are in shared memory at once") \
    SCHEDULE(sector_channels, 8, 1, 32, "neighbouring channels that are added at once: 8 are a sector of memory") \
    SCHEDULE(channels_at_once, 4, 1, 32, "channels of a thread that the loop is unrolled for") \
    HOST(block_threads, 256, 32, 1024, "threads of a block")

#define DEFORMKIT_GKA_BACKWARD_VALUE_IN_ORDER_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(group_samples, 16, 1, 64, "samples of a query and head whose taps are in shared memory at once") \
    SCHEDULE(share_cells, 32, 1, 1024, "cells of a thread, whose sums are in shared memory") \
    SCHEDULE(shares, 8, 1, 64, "threads of a block for each channel; queries whose taps are in shared memory at once") \
    SCHEDULE(channels, 32, 1, 256, "channels of a block")
// clang-format on

DEFORMKIT_KNOBS(gka_cells_gpu, GkaCellsGpu, DEFORMKIT_GKA_CELLS_GPU_KNOBS)
DEFORMKIT_KNOBS(gka_forward_gpu, GkaForwardGpu, DEFORMKIT_GKA_FORWARD_GPU_KNOBS)
DEFORMKIT_KNOBS(gka_backward_samples_gpu, GkaBackwardSamplesGpu, DEFORMKIT_GKA_BACKWARD_SAMPLES_GPU_KNOBS)
DEFORMKIT_KNOBS(gka_backward_value_gpu, GkaBackwardValueGpu, DEFORMKIT_GKA_BACKWARD_VALUE_GPU_KNOBS)
DEFORMKIT_KNOBS(gka_backward_value_in_order_gpu, GkaBackwardValueInOrderGpu, DEFORMKIT_GKA_BACKWARD_VALUE_IN_ORDER_GPU_KNOBS)

}  // namespace deformkit
