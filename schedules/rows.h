#pragma once

#include "generators/algorithms/rows_passes.h"

namespace deformkit {

void schedule_rows_magnitude_cpu(RowsMagnitude &f, int lanes);

struct RowsAxes {
    Halide::Var d, m, cell;
};

void schedule_rows_convert_cpu(Halide::Func output, const RowsAxes &axes, int lanes);

}  // namespace deformkit
