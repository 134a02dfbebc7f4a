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

// A block takes some cells of a head, whose sums are in shared memory, and goes through all samples, a thread for each channel.
void schedule_msda_backward_value_in_order_gpu(MsdaHeadBackwardValueInOrder &f, Func level_table, Func grad_value, const Var &k,
                                               const MsdaBackwardValueInOrderGpuScheduleKnobs &knobs) {
    Var part{"part"}, share{"share"}, cell{"cell"}, chunk{"chunk"};
    RVar qo{"qo"}, qi{"qi"}, so{"so"}, si{"si"};
    const int channels = knobs.channels, shares = knobs.shares;
    grad_value.split(k, cell, share, shares, TailStrategy::GuardWithIf)
        .split(cell, part, cell, knobs.share_cells, TailStrategy::GuardWithIf)
        .split(f.d, chunk, f.d, channels, TailStrategy::GuardWithIf)
        .reorder(cell, f.d, share, chunk, part, f.m, f.b)
        .gpu_blocks(part, f.m, f.b)
        .gpu_threads(f.d, share);
    f.sums.compute_at(grad_value, chunk)
        .store_in(MemoryType::GPUShared)
        .bound_extent(f.cell, knobs.share_cells)
        .bound_extent(f.share, shares)
        .bound_extent(f.part, 1)
        .bound_extent(f.d, channels)
        .reorder(f.cell, f.d, f.share)
        .gpu_threads(f.d, f.share);
    f.sums.update()
        .split(f.samples.y, so, si, knobs.group_samples, TailStrategy::GuardWithIf)
        .split(f.samples.z, qo, qi, shares, TailStrategy::GuardWithIf)
        .reorder(f.samples.x, si, qi, f.d, f.share, so, qo, f.part, f.m, f.b)
        .unroll(f.samples.x)
        .gpu_threads(f.d, f.share);
    f.taps.in()
        .compute_at(f.sums, si)
        .store_in(MemoryType::Register)
        .bound(f.field, 0, kCornerFields)
        .vectorize(f.field, 4)
        .unroll(f.field);
    schedule_level_table_gpu(level_table, {f.sums, so});
    const Var round = schedule_taps_gpu(f, f.taps, kCornerFields, {f.sums, so}, knobs.group_samples, channels, shares);
    f.found.compute_at(f.taps, round).store_in(MemoryType::Register);
}

}  // namespace deformkit
