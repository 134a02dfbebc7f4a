// Conversions of whole tensors on GPUs: their knobs.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_CONVERT_NARROW_GPU_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(threads, 256, 32, 1024, "threads of a block")
// clang-format on

DEFORMKIT_KNOBS(convert_narrow_gpu, ConvertNarrowGpu, DEFORMKIT_CONVERT_NARROW_GPU_KNOBS)

}  // namespace deformkit
