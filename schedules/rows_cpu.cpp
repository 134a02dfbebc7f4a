#include "rows.h"

namespace deformkit {

using namespace Halide;

// Bound by memory: a vector of maxima, and one reduction of that at the end.
void schedule_rows_magnitude_cpu(RowsMagnitude &f, int lanes) {
    RVar v{"v"}, lane{"lane"};
    Var u{"u"};
    f.largest.compute_root().update().split(f.elements.x, v, lane, lanes);
    Func lanewise = f.largest.update().rfactor(lane, u);
    lanewise.compute_root().vectorize(u, lanes).update().reorder(u, v, f.elements.y, f.elements.z).vectorize(u, lanes);
}

// Read in the order of memory, whatever the order of what is written.
void schedule_rows_widen_cpu(RowsWiden &f, Func output, int lanes) {
    output.reorder(f.d, f.m, f.cell).vectorize(f.d, lanes, TailStrategy::GuardWithIf);
    output.specialize(output.output_buffer().dim(0).extent() == 32).unroll(f.d);
}

// Cells are written in the order of memory, all heads of one before the next.
void schedule_rows_reduce_cpu(RowsReduce &f, Func output, const RowsReduceCpuKnobs &knobs) {
    output.reorder(f.d, f.m, f.cell).vectorize(f.d, knobs.lanes, TailStrategy::GuardWithIf);
    f.sum.compute_at(output, f.d).vectorize(f.d, knobs.lanes, TailStrategy::RoundUp);
    f.sum.update().vectorize(f.d, knobs.lanes, TailStrategy::RoundUp);
    output.specialize(knobs.num_parts == 1);
    output.specialize(knobs.num_parts == 2);
}

}  // namespace deformkit
