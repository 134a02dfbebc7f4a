#pragma once

#include "../generators/rows.h"

namespace deformkit {

struct RowsReduceCpuKnobs {
    int lanes;  ///< lanes of the type of arithmetic in a vector register
    Halide::Expr num_parts;
};

void schedule_rows_magnitude_cpu(RowsMagnitude &f, int lanes);
void schedule_rows_widen_cpu(RowsWiden &f, Halide::Func output, int lanes);
void schedule_rows_reduce_cpu(RowsReduce &f, Halide::Func output, const RowsReduceCpuKnobs &knobs);

}  // namespace deformkit
