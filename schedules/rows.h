#pragma once

#include "generators/algorithms/rows_passes.h"

namespace deformkit {

void schedule_rows_magnitude_cpu(RowsMagnitude &f, int lanes);

}  // namespace deformkit
