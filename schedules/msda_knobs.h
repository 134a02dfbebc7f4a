// Multi-scale deformable attention: its knobs, and the sizes that kernels have code of their own for.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_MSDA_FORWARD_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(accumulators, 0, 0, 32, "vectors of sums in registers; 0: of 64 channels, 8 at most") \
    SCHEDULE(samples_at_once, 4, 1, 16, "samples added up before they join the sums in memory") \
    HOST(task_samples, 4096, 1, 1 << 24, "samples of a task, at least: about 20 us, to wake a thread for") \
    HOST(most_task_queries, 1024, 1, 1 << 20, "queries of a task, at most") \
    HOST(head_major_reads, 16, 0, 1 << 20, "cells read so often are read head by head: neighbouring queries share them") \
    HOST(packing_reads, 32, 0, 1 << 20, "and, read so often, out of a copy of value head by head") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of value: of so many batch items at a time") \
    HOST(block_queries, 64, 1, 1 << 16, "queries of a block, which one call of the head-major kernel takes") \
    HOST(ranges_per_thread, 4, 1, 64, "ranges of neighbouring blocks for each thread") \
    HOST(streaming_bytes, 4 << 20, 0, 1024 << 20, "outputs as large as this are written past the caches")

#define DEFORMKIT_MSDA_FORWARD_HEAD_MAJOR_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(accumulators, 0, 0, 32, "vectors of sums in registers; 0: of 64 channels, 8 at most") \
    SCHEDULE(samples_at_once, 4, 1, 16, "samples that the loop is unrolled for")

#define DEFORMKIT_MSDA_BACKWARD_SAMPLES_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(samples_at_once, 4, 1, 16, "samples whose dot products with four cells are taken together")

// Host knobs of the whole backward.
#define DEFORMKIT_MSDA_BACKWARD_VALUE_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(accumulators, 4, 1, 32, "vectors of grad_output in registers, for the four cells of a sample each") \
    SCHEDULE(samples_at_once, 4, 1, 16, "samples that the loop is unrolled for, where their number allows it") \
    SCHEDULE(tap_queries, 64, 1, 4096, "queries whose taps are computed at a time: a few KiB") \
    HOST(block_queries, 128, 1, 1 << 16, "queries of a block, at most: their dot products stay in L2") \
    HOST(least_block_queries, 16, 1, 1 << 16, "queries of a block, at least") \
    HOST(least_blocks, 16, 1, 1 << 16, "blocks of a call, if possible, for threads to share evenly") \
    HOST(packing_reads, 32, 0, 1 << 20, "cells read so often are read out of a copy of value head by head") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of value: of so many batch items at a time") \
    HOST(slab_writes, 2, 0, 1 << 20, "levels with fewer writes a cell have no slab: it would cost more") \
    HOST(find_cells_cost, 3, 1, 1000, "time to find the four cells of a sample, in some unit") \
    HOST(add_vector_cost, 8, 1, 1000, "time to add a vector of channels to each of them") \
    HOST(streaming_bytes, 4 << 20, 0, 1024 << 20, "gradients as large as this are written past the caches")
// clang-format on

DEFORMKIT_KNOBS(msda_forward, MsdaForward, DEFORMKIT_MSDA_FORWARD_KNOBS)
DEFORMKIT_KNOBS(msda_forward_head_major, MsdaForwardHeadMajor, DEFORMKIT_MSDA_FORWARD_HEAD_MAJOR_KNOBS)
DEFORMKIT_KNOBS(msda_backward_samples, MsdaBackwardSamples, DEFORMKIT_MSDA_BACKWARD_SAMPLES_KNOBS)
DEFORMKIT_KNOBS(msda_backward_value, MsdaBackwardValue, DEFORMKIT_MSDA_BACKWARD_VALUE_KNOBS)

/// Channels and samples of a head that kernels have code of their own for: loops over vectors and groups unroll, and tails vanish.
struct MsdaCommonSize {
    int channels, samples;  ///< samples 0: any
};
/// Each is one more copy of the whole kernel: beyond about a dozen, lowering takes minutes.
constexpr MsdaCommonSize kMsdaForwardCommonSizes[] = {{32, 16}, {32, 12}, {32, 4}, {32, 32}, {16, 2},
                                                      {64, 16}, {32, 0},  {16, 0}, {64, 0}};
/// Of any number of samples: of a multiple of samples_at_once.
constexpr MsdaCommonSize kMsdaBackwardSamplesCommonSizes[] = {{32, 16}, {32, 12}, {32, 4}, {32, 0}};
/// Samples of a level.
constexpr MsdaCommonSize kMsdaBackwardValueCommonSizes[] = {{32, 4}, {16, 4}};
/// Taps are computed in vectors as long as the first of these that divides their number.
constexpr int kMsdaTapVectors[] = {16, 12, 8, 4, 2};

}  // namespace deformkit
