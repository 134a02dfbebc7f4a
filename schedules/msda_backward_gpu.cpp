#include "schedules/gpu.h"
#include "schedules/msda_gpu.h"

namespace deformkit {

using namespace Halide;

void schedule_msda_backward_samples_gpu(MsdaHeadBackwardSamples &f, Func level_table, Func grads, const Expr &num_lanes,
                                        const Expr &rounds, const Expr &query_tile,
                                        const MsdaBackwardSamplesGpuScheduleKnobs &knobs) {
    const Var round =
        schedule_dots_gpu(f, f.dots, {f.c}, f.positions, level_table, grads, num_lanes, rounds, query_tile, knobs);
    f.found.compute_at(f.positions, round).store_in(MemoryType::Register);
}

void schedule_msda_backward_value_gpu(MsdaHeadBackwardValue &f, Func level_table, const Expr &query_tile,
                                      const MsdaBackwardValueGpuScheduleKnobs &knobs) {
    const Var round = schedule_scatter_gpu(f, f.taps, kCornerFields, {f.samples[2]}, f.samples[3], f.samples[4], level_table,
                                           query_tile, knobs);
    f.found.compute_at(f.taps, round).store_in(MemoryType::Register);
}

void schedule_msda_backward_value_in_order_gpu(MsdaHeadBackwardValueInOrder &f, Func level_table, Func grad_value, const Var &k,
                                               const MsdaBackwardValueInOrderGpuScheduleKnobs &knobs) {
    const Var round = schedule_in_order_gpu(f, kCornerFields, level_table, grad_value, k, knobs);
    f.found.compute_at(f.taps, round).store_in(MemoryType::Register);
}

}  // namespace deformkit
