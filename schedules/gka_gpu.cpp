#include "schedules/gka_gpu.h"

#include "schedules/gpu.h"

namespace deformkit {

using namespace Halide;

void schedule_gka_cells_gpu(Func cells, const std::vector<Var> &at, const GkaCellsGpuScheduleKnobs &knobs) {
    Var samples{"samples"}, flat{"flat"}, block{"block"}, thread{"thread"};
    cells.fuse(at[0], at[1], samples)
        .fuse(samples, at[2], samples)
        .fuse(samples, at[3], flat)
        .split(flat, block, thread, knobs.threads, TailStrategy::GuardWithIf)
        .reorder(thread, at[4], block, at[5])
        .gpu_blocks(at[4], block, at[5])
        .gpu_threads(thread);
}

void schedule_gka_forward_gpu(GkaGroupedForward &f, Func level_table, Func output, const Expr &query_tile,
                              const GkaForwardGpuScheduleKnobs &knobs) {
    schedule_sums_gpu(f, f.taps, GkaForward::kFields, level_table, output, query_tile, knobs);
}

void schedule_gka_backward_samples_gpu(GkaLaneBackwardSamples &f, Func level_table, Func grad_weights, const Expr &num_lanes,
                                       const Expr &rounds, const Expr &query_tile,
                                       const GkaBackwardSamplesGpuScheduleKnobs &knobs) {
    schedule_dots_gpu(f, f.dot, {}, f.positions, level_table, grad_weights, num_lanes, rounds, query_tile, knobs);
}

void schedule_gka_backward_value_gpu(GkaLaneBackwardValue &f, Func level_table, const Expr &query_tile,
                                     const GkaBackwardValueGpuScheduleKnobs &knobs) {
    schedule_scatter_gpu(f, f.taps, GkaForward::kFields, {}, f.samples[2], f.samples[3], level_table, query_tile, knobs);
}

void schedule_gka_backward_value_in_order_gpu(GkaLaneBackwardValueInOrder &f, Func level_table, Func grad_value, const Var &k,
                                              const GkaBackwardValueInOrderGpuScheduleKnobs &knobs) {
    schedule_in_order_gpu(f, GkaForward::kFields, level_table, grad_value, k, knobs);
}

}  // namespace deformkit
