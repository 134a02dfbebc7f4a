// Conversions of whole tensors between their type and that of arithmetic: their knobs.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_CONVERT_WIDEN_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(common_channels, 32, 1, 1024, "channels that the loop is unrolled for")

#define DEFORMKIT_CONVERT_NARROW_KNOBS(SCHEDULE, HOST) \
    SCHEDULE(common_channels, 32, 1, 1024, "channels that the loop is unrolled for")
// clang-format on

DEFORMKIT_KNOBS(convert_widen, ConvertWiden, DEFORMKIT_CONVERT_WIDEN_KNOBS)
DEFORMKIT_KNOBS(convert_narrow, ConvertNarrow, DEFORMKIT_CONVERT_NARROW_KNOBS)

}  // namespace deformkit
