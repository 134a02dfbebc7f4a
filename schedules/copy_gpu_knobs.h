// Copies between layouts on GPUs: their knobs.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

/// Axes of a copy: those of a tensor.
constexpr int kCopyAxes = 6;

// clang-format off
#define DEFORMKIT_COPY_STRIDED_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(block_threads, 256, 32, 1024, "threads of a block")
// clang-format on

DEFORMKIT_KNOBS(copy_strided_gpu, CopyStridedGpu, DEFORMKIT_COPY_STRIDED_KNOBS)

}  // namespace deformkit
