#pragma once

#include "generators/algorithms/msda_backward.h"
#include "generators/algorithms/msda_forward.h"
#include "schedules/msda_gpu_knobs.h"

namespace deformkit {

/// `query_tile`: queries of a block of threads.
void schedule_msda_forward_gpu(MsdaForward &f, Halide::Func level_table, Halide::Func output, const Halide::Expr &query_tile,
                               const MsdaForwardGpuScheduleKnobs &knobs);
void schedule_msda_backward_samples_gpu(MsdaHeadBackwardSamples &f, Halide::Func level_table, Halide::Func grads,
                                        const Halide::Expr &num_lanes, const Halide::Expr &rounds,
                                        const Halide::Expr &query_tile, const MsdaBackwardSamplesGpuScheduleKnobs &knobs);
void schedule_msda_backward_value_gpu(MsdaHeadBackwardValue &f, Halide::Func level_table, const Halide::Expr &query_tile,
                                      const MsdaBackwardValueGpuScheduleKnobs &knobs);
/// `k` is grad_value's axis of keys.
void schedule_msda_backward_value_in_order_gpu(MsdaHeadBackwardValueInOrder &f, Halide::Func level_table,
                                               Halide::Func grad_value, const Halide::Var &k,
                                               const MsdaBackwardValueInOrderGpuScheduleKnobs &knobs);

}  // namespace deformkit
