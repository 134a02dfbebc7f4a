#pragma once

#include <Halide.h>

namespace deformkit {

struct ConvertAxes {
    Halide::Var d, m, cell;
};

void schedule_convert_cpu(Halide::Func output, const ConvertAxes &axes, int lanes, int common_channels);

}  // namespace deformkit
