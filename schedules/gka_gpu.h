#pragma once

#include "generators/algorithms/gka_passes.h"
#include "schedules/gka_gpu_knobs.h"

namespace deformkit {

/// `at` are the axes, all in the order of memory.
void schedule_gka_cells_gpu(Halide::Func cells, const std::vector<Halide::Var> &at, const GkaCellsGpuScheduleKnobs &knobs);
/// `query_tile`: queries of a block of threads.
void schedule_gka_forward_gpu(GkaGroupedForward &f, Halide::Func level_table, Halide::Func output,
                              const Halide::Expr &query_tile, const GkaForwardGpuScheduleKnobs &knobs);
void schedule_gka_backward_samples_gpu(GkaLaneBackwardSamples &f, Halide::Func level_table, Halide::Func grad_weights,
                                       const Halide::Expr &num_lanes, const Halide::Expr &rounds,
                                       const Halide::Expr &query_tile, const GkaBackwardSamplesGpuScheduleKnobs &knobs);
void schedule_gka_backward_value_gpu(GkaLaneBackwardValue &f, Halide::Func level_table, const Halide::Expr &query_tile,
                                     const GkaBackwardValueGpuScheduleKnobs &knobs);
/// `k`: the axis of cells.
void schedule_gka_backward_value_in_order_gpu(GkaLaneBackwardValueInOrder &f, Halide::Func level_table, Halide::Func grad_value,
                                              const Halide::Var &k, const GkaBackwardValueInOrderGpuScheduleKnobs &knobs);

}  // namespace deformkit
