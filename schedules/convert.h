#pragma once

#include <Halide.h>

#include <vector>

namespace deformkit {

struct ConvertAxes {
    Halide::Var d, m, cell;
};

void schedule_convert_cpu(Halide::Func output, const ConvertAxes &axes, int lanes, int common_channels);
void schedule_convert_gpu(Halide::Func output, const std::vector<Halide::Var> &axes, int threads);

}  // namespace deformkit
