#include "schedules/da_gpu.h"

#include "generators/shared/contract.h"
#include "generators/shared/device.h"
#include "schedules/gpu.h"

namespace deformkit {

using namespace Halide;

namespace {

/// (s, n, row), by one thread each.
void schedule_map_table(Func map_table, const LoopLevel &at) {
    const std::vector<Var> args = map_table.args();
    map_table.compute_at(at)
        .store_in(MemoryType::GPUShared)
        .reorder(args[2], args[0], args[1])
        .unroll(args[2])
        .gpu_threads(args[0], args[1]);
}

/// Taps of so many points of some anchors: lanes take points and scales, groups take cameras.
template <typename F>
void schedule_taps(F &f, const LoopLevel &at, int points, const Expr &lanes, const Expr &anchor_tile, const Expr &group_tile) {
    Var t{"t"}, round{"round"}, lane{"lane"}, no{"no"}, ni{"ni"};
    f.taps.compute_at(at)
        .store_in(MemoryType::GPUShared)
        .bound(f.field, 0, kCornerFields)
        .bound_extent(f.p, points)
        .bound_extent(f.a, anchor_tile)
        .reorder_storage(f.field, f.p, f.s, f.n, f.a, f.b)
        .fuse(f.p, f.s, t)
        .split(t, round, lane, lanes, TailStrategy::GuardWithIf)
        .split(f.n, no, ni, group_tile, TailStrategy::GuardWithIf)
        .reorder(f.field, round, no, lane, ni, f.a)
        .unroll(f.field)
        .gpu_threads(lane, ni, f.a);
    f.found.compute_at(f.taps, round).store_in(MemoryType::Register);
}

}  // namespace

// A thread takes 16 bytes of channels of an anchor, a block some anchors, all groups if it can.
void schedule_da_forward_gpu(DaGroupedForward &f, Func map_table, Func output, const Expr &anchor_tile, const Expr &group_tile,
                             const DaForwardGpuScheduleKnobs &knobs) {
    Var lane{"lane"}, word{"word"}, ao{"ao"}, ai{"ai"}, go{"go"}, gi{"gi"};
    const Expr lanes = output.output_buffer().dim(0).extent() / kWordsPerLane;
    const auto by_lanes = [&](Stage stage) -> Stage {
        return stage.split(f.d, lane, word, kWordsPerLane, TailStrategy::RoundUp).vectorize(word);
    };
    by_lanes(output)
        .split(f.a, ao, ai, anchor_tile, TailStrategy::GuardWithIf)
        .split(f.g, go, gi, group_tile, TailStrategy::GuardWithIf)
        .reorder(word, lane, gi, ai, ao, go, f.b)
        .gpu_blocks(ao, go, f.b)
        .gpu_threads(lane, gi, ai);
    f.sum.compute_at(output, ao).store_in(MemoryType::GPUShared).bound_extent(f.a, anchor_tile).bound_extent(f.g, group_tile);
    by_lanes(f.sum).reorder(word, lane, f.g, f.a).gpu_threads(lane, f.g, f.a);
    by_lanes(f.sum.update()).reorder(word, lane, f.g, f.a, f.groups).gpu_threads(lane, f.g, f.a);
    by_lanes(f.of_group.compute_at(f.sum, lane).store_in(MemoryType::Register));
    by_lanes(f.of_group.update()).reorder(word, lane, f.samples.x, f.samples.y, f.samples.z);
    schedule_taps(f, {f.sum, f.groups}, knobs.group_points, lanes, anchor_tile, group_tile);
    schedule_map_table(map_table, {output, ao});
}

// A block takes a point of an anchor. A thread takes 16 bytes of channels on a camera, for all scales and corners; then one thread
// adds up, for a group and a scale, what its group's threads found.
void schedule_da_backward_samples_gpu(DaGroupedBackwardSamples &f, Func map_table, Func grads, const Expr &num_lanes,
                                      const Expr &camera_tile, const Expr &group_tile,
                                      const DaBackwardSamplesGpuScheduleKnobs &) {
    Var no{"no"}, ni{"ni"}, go{"go"}, gi{"gi"}, round{"round"}, si{"si"};
    grads.split(f.n, no, ni, camera_tile, TailStrategy::GuardWithIf)
        .split(f.g, go, gi, group_tile, TailStrategy::GuardWithIf)
        .split(f.s, round, si, num_lanes, TailStrategy::GuardWithIf)
        .reorder(round, si, gi, ni, no, go, f.a, f.p, f.b)
        .gpu_blocks(f.a, f.p, f.b)
        .gpu_threads(si, gi, ni);
    f.dots.compute_at(grads, round).store_in(MemoryType::Register).bound(f.c, 0, 4).vectorize(f.c);
    f.dots.update().reorder(f.c, f.lanes).vectorize(f.c);
    f.partials.compute_at(grads, no)
        .store_in(MemoryType::GPUShared)
        .bound(f.c, 0, 4)
        .bound_extent(f.lane, num_lanes)
        .bound_extent(f.g, group_tile)
        .bound_extent(f.n, camera_tile)
        .reorder_storage(f.c, f.lane, f.g, f.s, f.n, f.p, f.a, f.b)
        .align_storage(f.lane, num_lanes + 1)
        .reorder(f.c, f.s, f.lane, f.g, f.n)
        .vectorize(f.c)
        .gpu_threads(f.lane, f.g, f.n);
    f.partial.compute_at(f.partials, f.s).store_in(MemoryType::Register).unroll(f.c);
    f.partial.update().reorder(f.words, f.c).unroll(f.words).unroll(f.c);
    f.gradient.compute_at(f.partials, f.lane)
        .store_in(MemoryType::Register)
        .bound_extent(f.word, kWordsPerLane)
        .vectorize(f.word);
    f.cell.compute_at(f.partials, f.s)
        .store_in(MemoryType::Register)
        .bound_extent(f.word, kWordsPerLane)
        .vectorize(f.word)
        .unroll(f.c);
    f.positions.compute_at(grads, no)
        .store_in(MemoryType::GPUShared)
        .bound(f.c, 0, 4)
        .bound_extent(f.n, camera_tile)
        .split(f.s, round, si, num_lanes, TailStrategy::GuardWithIf)
        .reorder(f.c, round, si, f.n)
        .unroll(f.c)
        .gpu_threads(si, f.n);
    f.found.compute_at(f.positions, round).store_in(MemoryType::Register);
    schedule_map_table(map_table, {grads, f.a});
}

void schedule_da_backward_locations_gpu(Func sum, Func grad_locations, const std::vector<Var> &at,
                                        const DaBackwardLocationsGpuScheduleKnobs &knobs) {
    constexpr int kCameras = 8;
    Var no{"no"}, ni{"ni"}, po{"po"}, pi{"pi"};
    grad_locations.split(at[0], no, ni, kCameras, TailStrategy::GuardWithIf)
        .split(at[1], po, pi, knobs.threads / kCameras, TailStrategy::GuardWithIf)
        .reorder(no, ni, pi, at[2], po, at[3])
        .gpu_blocks(at[2], po, at[3])
        .gpu_threads(ni, pi);
    sum.compute_at(grad_locations, no).store_in(MemoryType::Register);
}

// As in schedules/gpu.h, schedule_scatter_gpu, with groups beside channels.
void schedule_da_backward_value_gpu(DaGroupedBackwardValue &f, Func map_table, const Expr &anchor_tile, const Expr &group_tile,
                                    const DaBackwardValueGpuScheduleKnobs &knobs) {
    Var go{"go"}, gi{"gi"};
    RVar ao{"ao"}, ai{"ai"}, steps{"steps"}, step{"step"}, po{"po"}, pi{"pi"};
    schedule_clear_gpu(f.grad_maps, f.d, f.g, f.cell, f.b);
    const RVar lane = f.samples[1], corner = f.samples[2], scale = f.samples[3], camera = f.samples[4], point = f.samples[5],
               anchor = f.samples[6];
    schedule_additions_gpu(f.grad_maps, [&](Stage stage) {
        stage.split(f.samples[0], steps, step, knobs.channels_at_once, TailStrategy::GuardWithIf)
            .split(anchor, ao, ai, anchor_tile, TailStrategy::GuardWithIf)
            .split(point, po, pi, knobs.group_points, TailStrategy::GuardWithIf)
            .split(f.g, go, gi, group_tile, TailStrategy::GuardWithIf)
            .reorder(step, corner, scale, camera, pi, steps, lane, gi, ai, po, ao, go, f.b)
            .unroll(step)
            .unroll(corner)
            .atomic()
            .gpu_blocks(ao, go, f.b)
            .gpu_threads(lane, gi, ai);
    });
    f.gradient.compute_at(f.grad_maps, steps)
        .store_in(MemoryType::Register)
        .bound_extent(f.step, knobs.channels_at_once)
        .unroll(f.step);
    schedule_tap_gpu(f, f.taps, kCornerFields, {f.grad_maps, scale});
    schedule_taps(f, {f.grad_maps, po}, knobs.group_points, knobs.sector_channels, anchor_tile, group_tile);
    schedule_map_table(map_table, {f.grad_maps, ao});
}

void schedule_da_backward_value_in_order_gpu(DaGroupedBackwardValueInOrder &f, Func map_table, Func grad_maps, const Var &k,
                                             const DaBackwardValueInOrderGpuScheduleKnobs &knobs) {
    RVar po{"po"}, pi{"pi"};
    const RVar corner = f.samples[0], scale = f.samples[1], camera = f.samples[2], point = f.samples[3], anchor = f.samples[4];
    schedule_sums_in_order_gpu(f, f.g, grad_maps, k, knobs);
    f.sums.update()
        .split(point, po, pi, knobs.group_points, TailStrategy::GuardWithIf)
        .reorder(corner, scale, camera, pi, f.d, f.share, po, anchor, f.part, f.g, f.b)
        .unroll(corner)
        .gpu_threads(f.d, f.share);
    schedule_tap_gpu(f, f.taps, kCornerFields, {f.sums, scale});
    schedule_taps(f, {f.sums, po}, knobs.group_points, knobs.channels, 1, knobs.shares);
    schedule_map_table(map_table, {grad_maps, Var("part")});
}

}  // namespace deformkit
