#include "schedules/convert.h"

namespace deformkit {

using namespace Halide;

// Cell by cell, all heads of one before the next: the order of memory, either for what is read or for what is written.
void schedule_convert_cpu(Func output, const ConvertAxes &axes, int lanes, int common_channels) {
    output.reorder(axes.d, axes.m, axes.cell).vectorize(axes.d, lanes, TailStrategy::GuardWithIf);
    output.specialize(output.output_buffer().dim(0).extent() == common_channels).unroll(axes.d);
}

}  // namespace deformkit
