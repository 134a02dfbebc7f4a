#pragma once

#include "generators/algorithms/da_grouped.h"
#include "schedules/da_gpu_knobs.h"

namespace deformkit {

/// Tiles are what a block of threads takes.
void schedule_da_forward_gpu(DaGroupedForward &f, Halide::Func map_table, Halide::Func output, const Halide::Expr &anchor_tile,
                             const Halide::Expr &group_tile, const DaForwardGpuScheduleKnobs &knobs);
void schedule_da_backward_samples_gpu(DaGroupedBackwardSamples &f, Halide::Func map_table, Halide::Func grads,
                                      const Halide::Expr &num_lanes, const Halide::Expr &camera_tile,
                                      const Halide::Expr &group_tile, const DaBackwardSamplesGpuScheduleKnobs &knobs);
/// `at` are the axes of both.
void schedule_da_backward_locations_gpu(Halide::Func sum, Halide::Func grad_locations, const std::vector<Halide::Var> &at,
                                        const DaBackwardLocationsGpuScheduleKnobs &knobs);
void schedule_da_backward_value_gpu(DaGroupedBackwardValue &f, Halide::Func map_table, const Halide::Expr &anchor_tile,
                                    const Halide::Expr &group_tile, const DaBackwardValueGpuScheduleKnobs &knobs);
/// `k`: the axis of cells.
void schedule_da_backward_value_in_order_gpu(DaGroupedBackwardValueInOrder &f, Halide::Func map_table, Halide::Func grad_maps,
                                             const Halide::Var &k, const DaBackwardValueInOrderGpuScheduleKnobs &knobs);

}  // namespace deformkit
