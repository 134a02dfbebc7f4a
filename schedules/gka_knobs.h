// Geometric kernel attention: its knobs, and the sizes that kernels have code of their own for.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_GKA_CELLS_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(task_queries, 64, 1, 1 << 20, "queries of a task")

#define DEFORMKIT_GKA_FORWARD_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(tap_queries, 64, 1, 1024, "queries whose taps are found before they are used: a few KiB") \
    SCHEDULE(tap_samples, 16, 4, 16, "samples of a query whose taps are found at once, at most") \
    SCHEDULE(accumulators, 0, 0, 32, "vectors of sums in registers; 0: 64 numbers, 8 vectors at most") \
    SCHEDULE(samples_at_once, 4, 1, 16, "samples that the loop of a sum is unrolled over, where they are a multiple") \
    HOST(task_samples, 8192, 1, 1 << 24, "samples of a task, at least: about 20 us, to wake a thread for") \
    HOST(tasks_per_thread, 4, 1, 64, "tasks for each thread, so that all end at about the same time") \
    HOST(head_major_reads, 16, 0, 1 << 20, "cells read so often are read out of a copy of value head by head") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of value: of so many batch items at a time")

#define DEFORMKIT_GKA_BACKWARD_SAMPLES_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(tap_queries, 64, 1, 1024, "queries whose taps are found before they are used: a few KiB") \
    SCHEDULE(tap_samples, 16, 4, 16, "samples of a query whose taps are found at once, at most") \
    SCHEDULE(dots_at_once, 4, 1, 16, "dot products that are taken together, where samples are a multiple") \
    SCHEDULE(common_dots_at_once, 8, 1, 16, "the same where channels are those of most models")

// Host knobs of the whole backward.
#define DEFORMKIT_GKA_BACKWARD_VALUE_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(tap_queries, 64, 1, 1024, "queries whose cells are found before they are used: a few KiB") \
    SCHEDULE(tap_samples, 16, 4, 16, "samples of a query whose cells are found at once, at most") \
    SCHEDULE(vectors_at_once, 8, 1, 32, "vectors of a gradient in registers, at most") \
    HOST(task_samples, 8192, 1, 1 << 24, "samples of a task, at least: about 20 us, to wake a thread for") \
    HOST(tasks_per_thread, 4, 1, 64, "tasks for each thread, so that all end at about the same time") \
    HOST(many_heads, 16, 1, 1 << 20, "from so many heads of all batch items on, a task is a head, not a map") \
    HOST(slab_bytes, 1536 << 10, 1, 1024 << 20, "and where the cells of a head take no more, so that they stay in L2") \
    HOST(head_major_reads, 16, 0, 1 << 20, "cells read so often are read out of a copy head by head, and added up in one") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of value: of so many batch items at a time") \
    HOST(streaming_bytes, 4 << 20, 0, 1024 << 20, "gradients as large as this are written past the caches")
// clang-format on

DEFORMKIT_KNOBS(gka_cells, GkaCells, DEFORMKIT_GKA_CELLS_KNOBS)
DEFORMKIT_KNOBS(gka_forward, GkaForward, DEFORMKIT_GKA_FORWARD_KNOBS)
DEFORMKIT_KNOBS(gka_backward_samples, GkaBackwardSamples, DEFORMKIT_GKA_BACKWARD_SAMPLES_KNOBS)
DEFORMKIT_KNOBS(gka_backward_value, GkaBackwardValue, DEFORMKIT_GKA_BACKWARD_VALUE_KNOBS)

/// Channels, and samples of a head or 0 for any, that loops unroll over and tails vanish for. Most models have the first.
struct GkaCommonSize {
    int channels, samples;
};
constexpr GkaCommonSize kGkaCommonSizes[] = {{32, 16}, {32, 0}, {16, 0}, {64, 0}};

}  // namespace deformkit
