// The largest magnitude among rows of channels: nothing of it is left to a machine.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

#define DEFORMKIT_ROWS_MAGNITUDE_KNOBS(SCHEDULE, HOST)

DEFORMKIT_KNOBS(rows_magnitude, RowsMagnitude, DEFORMKIT_ROWS_MAGNITUDE_KNOBS)

}  // namespace deformkit
