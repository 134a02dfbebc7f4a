// What GPU schedules of MSDA and GKA have in common: a block takes some queries of one head, which share cells, and computes what
// says where samples lie once, into shared memory, for a group of samples at a time.
#pragma once

#include <Halide.h>

#include "generators/shared/contract.h"
#include "generators/shared/device.h"

namespace deformkit {

/// (s, LevelRow), by one thread each.
inline void schedule_level_table_gpu(Halide::Func level_table, const Halide::LoopLevel &at) {
    const Halide::Var level = level_table.args()[0], row = level_table.args()[1];
    level_table.compute_at(at).store_in(Halide::MemoryType::GPUShared).reorder(row, level).unroll(row).gpu_threads(level);
}

/// (field, s, m, q, b) in memory. One more sample a query than there are: so that queries' taps lie in different
/// banks. Returns the loop over samples of a thread.
template <typename F>
Halide::Var schedule_taps_gpu(const F &f, Halide::Func taps, int fields, const Halide::LoopLevel &at, int group,
                              const Halide::Expr &lanes, const Halide::Expr &query_tile) {
    Halide::Var round{"round"}, lane{"lane"};
    taps.compute_at(at)
        .store_in(Halide::MemoryType::GPUShared)
        .bound(f.field, 0, fields)
        .bound_extent(f.s, group)
        .bound_extent(f.q, query_tile)
        .reorder_storage(f.field, f.s, f.m, f.q, f.b)
        .align_storage(f.s, group + 1)
        .split(f.s, round, lane, lanes, Halide::TailStrategy::GuardWithIf)
        .reorder(f.field, round, lane, f.q)
        .unroll(f.field)
        .gpu_threads(lane, f.q);
    return round;
}

/// One sample's, in registers, so that the compiler asks once whether it counts.
template <typename F>
void schedule_tap_gpu(const F &f, Halide::Func taps, int fields, const Halide::LoopLevel &at) {
    taps.in()
        .compute_at(at)
        .store_in(Halide::MemoryType::Register)
        .bound(f.field, 0, fields)
        .vectorize(f.field, fields < 4 ? fields : 4)
        .unroll(f.field);
}

/// Sums of groups of samples: `f` has `of_group`, `sum`, and their axes. A thread takes 16 bytes of channels of a query. Sums stay
/// in shared memory between groups. `taps` as above.
template <typename F, typename Knobs>
Halide::Var schedule_sums_gpu(F &f, Halide::Func taps, int fields, Halide::Func level_table, Halide::Func output,
                              const Halide::Expr &query_tile, const Knobs &knobs) {
    using namespace Halide;
    Var lane{"lane"}, word{"word"}, block{"block"}, thread{"thread"};
    RVar ro{"ro"}, ri{"ri"};
    const auto by_lanes = [&](Stage stage) -> Stage {
        return stage.split(f.d, lane, word, kWordsPerLane, TailStrategy::RoundUp).vectorize(word);
    };
    by_lanes(output)
        .split(f.q, block, thread, query_tile, TailStrategy::GuardWithIf)
        .reorder(word, lane, thread, block, f.m, f.b)
        .gpu_blocks(block, f.m, f.b)
        .gpu_threads(lane, thread);
    f.sum.compute_at(output, block).store_in(MemoryType::GPUShared).bound_extent(f.q, query_tile);
    by_lanes(f.sum).reorder(word, lane, f.q).gpu_threads(lane, f.q);
    by_lanes(f.sum.update()).reorder(word, lane, f.q, f.groups).gpu_threads(lane, f.q);
    by_lanes(f.of_group.compute_at(f.sum, lane).store_in(MemoryType::Register));
    by_lanes(f.of_group.update()).split(f.samples, ro, ri, knobs.samples_at_once).reorder(word, lane, ri, ro).unroll(ri);
    schedule_level_table_gpu(level_table, {f.sum, f.groups});
    return schedule_taps_gpu(f, taps, fields, {f.sum, f.groups}, knobs.group_samples,
                             output.output_buffer().dim(0).extent() / kWordsPerLane, query_tile);
}

/// Dot products of grad_output with cells: `f` has `gradient`, `cell`, `partial`, `partials` and their axes, `c` among them where a
/// sample has several cells, and `grads` depends on what adds up the lanes' partials, `dots`. A thread takes 16 bytes of channels of a
/// query, for some samples; then one thread adds up what all found for one of these samples. What they leave in shared memory is
/// padded, so that both go through all banks.
template <typename F, typename Knobs>
Halide::Var schedule_dots_gpu(F &f, Halide::Func dots, const std::vector<Halide::Var> &corner, Halide::Func positions,
                              Halide::Func level_table, Halide::Func grads, const Halide::Expr &num_lanes,
                              const Halide::Expr &rounds, const Halide::Expr &query_tile, const Knobs &knobs) {
    using namespace Halide;
    Var block{"block"}, thread{"thread"}, so{"so"}, si{"si"}, round{"round"};
    const int group = knobs.group_samples;
    grads.split(f.q, block, thread, query_tile, TailStrategy::GuardWithIf)
        .split(f.s, so, si, group, TailStrategy::GuardWithIf)
        .split(si, round, si, num_lanes, TailStrategy::GuardWithIf)
        .reorder(round, si, thread, so, block, f.m, f.b)
        .gpu_blocks(block, f.m, f.b)
        .gpu_threads(si, thread);
    dots.compute_at(grads, round).store_in(MemoryType::Register);
    f.partials.compute_at(grads, so)
        .store_in(MemoryType::GPUShared)
        .bound_extent(f.lane, num_lanes)
        .bound_extent(f.s, group)
        .bound_extent(f.q, query_tile)
        .align_storage(f.lane, num_lanes + 1)
        .reorder(f.s, f.lane, f.q)
        .gpu_threads(f.lane, f.q);
    f.partial.compute_at(f.partials, f.s).store_in(MemoryType::Register);
    f.partial.update().unroll(f.words);
    f.partial.update(1).unroll(f.rounds.x);
    f.gradient.compute_at(f.partials, f.lane)
        .store_in(MemoryType::Register)
        .bound_extent(f.word, kWordsPerLane)
        .vectorize(f.word);
    f.cell.compute_at(f.partials, f.s).store_in(MemoryType::Register).bound_extent(f.word, kWordsPerLane).vectorize(f.word);
    positions.compute_at(grads, so)
        .store_in(MemoryType::GPUShared)
        .bound_extent(f.s, group)
        .bound_extent(f.q, query_tile)
        .split(f.s, round, si, num_lanes, TailStrategy::GuardWithIf)
        .reorder(round, si, f.q)
        .gpu_threads(si, f.q);
    for (const Var &c : corner) {
        for (const Func &each : {dots, Func(f.partials), positions}) {
            Func(each).bound(c, 0, 4);
        }
        dots.vectorize(c).update().reorder(c, f.lanes).vectorize(c);
        f.partials.reorder(c, f.s, f.lane, f.q).vectorize(c);
        f.partial.unroll(c).update().reorder(f.words, c).unroll(c);
        f.partial.update(1).reorder(f.rounds.x, c, f.rounds.y).unroll(c);
        f.cell.unroll(c);
        positions.reorder(c, round, si, f.q).unroll(c);
    }
    f.partials.specialize(rounds == 1);
    schedule_level_table_gpu(level_table, {grads, so});
    return round;
}

/// Zeros of a map's gradient, before anything is added.
inline void schedule_clear_gpu(Halide::Func gradient, const Halide::Var &d, const Halide::Var &m, const Halide::Var &k,
                               const Halide::Var &b) {
    using namespace Halide;
    constexpr int kClearThreads = 128, kClearCells = 8;
    Var flat{"flat"}, block{"block"}, thread{"thread"}, ko{"ko"}, ki{"ki"};
    gradient.fuse(d, m, flat)
        .split(flat, block, thread, kClearThreads, TailStrategy::GuardWithIf)
        .split(k, ko, ki, kClearCells, TailStrategy::GuardWithIf)
        .reorder(ki, thread, ko, block, b)
        .gpu_blocks(ko, block, b)
        .gpu_threads(thread);
}

/// What is added: of common sizes, nothing is asked for each channel.
template <typename Schedule>
void schedule_additions_gpu(Halide::Func gradient, const Schedule &schedule) {
    const Halide::Expr channels = gradient.output_buffer().dim(0).extent();
    for (int common : {32, 64, 16}) {
        schedule(gradient.update().specialize(channels == common));
    }
    schedule(gradient.update());
}

/// Clears `f.grad_value`, then adds to it: `f` has `gradient`, `samples` and axes. A thread takes some channels of a query, as far apart
/// as its neighbours are many, so that together they add to whole sectors of memory.
template <typename F, typename Knobs>
Halide::Var schedule_scatter_gpu(F &f, Halide::Func taps, int fields, const std::vector<Halide::RVar> &corner,
                                 const Halide::RVar &sample, const Halide::RVar &query, Halide::Func level_table,
                                 const Halide::Expr &query_tile, const Knobs &knobs) {
    using namespace Halide;
    RVar blocks{"blocks"}, queries{"queries"}, steps{"steps"}, step{"step"}, ro{"ro"}, ri{"ri"};
    schedule_clear_gpu(f.grad_value, f.d, f.m, f.k, f.b);
    const RVar lane = f.samples[1];
    schedule_additions_gpu(f.grad_value, [&](Stage stage) {
        std::vector<VarOrRVar> order = {step};
        order.insert(order.end(), corner.begin(), corner.end());
        for (const VarOrRVar &each : std::vector<VarOrRVar>{ri, steps, lane, queries, ro, blocks, f.m, f.b}) {
            order.push_back(each);
        }
        stage.split(f.samples[0], steps, step, knobs.channels_at_once, TailStrategy::GuardWithIf)
            .split(query, blocks, queries, query_tile, TailStrategy::GuardWithIf)
            .split(sample, ro, ri, knobs.group_samples, TailStrategy::GuardWithIf)
            .reorder(order)
            .unroll(step)
            .atomic()
            .gpu_blocks(blocks, f.m, f.b)
            .gpu_threads(lane, queries);
        for (const RVar &each : corner) {
            stage.unroll(each);
        }
    });
    f.gradient.compute_at(f.grad_value, steps)
        .store_in(MemoryType::Register)
        .bound_extent(f.step, knobs.channels_at_once)
        .unroll(f.step);
    schedule_tap_gpu(f, taps, fields, {f.grad_value, ri});
    schedule_level_table_gpu(level_table, {f.grad_value, ro});
    return schedule_taps_gpu(f, taps, fields, {f.grad_value, ro}, knobs.group_samples, knobs.sector_channels, query_tile);
}

/// A block takes some cells of a head (or group) `m`, whose sums are in shared memory, and goes through all samples, a thread for each
/// channel of a share.
template <typename F, typename Knobs>
void schedule_sums_in_order_gpu(F &f, const Halide::Var &m, Halide::Func grad_value, const Halide::Var &k, const Knobs &knobs) {
    using namespace Halide;
    Var part{"part"}, share{"share"}, cell{"cell"}, chunk{"chunk"};
    grad_value.split(k, cell, share, knobs.shares, TailStrategy::GuardWithIf)
        .split(cell, part, cell, knobs.share_cells, TailStrategy::GuardWithIf)
        .split(f.d, chunk, f.d, knobs.channels, TailStrategy::GuardWithIf)
        .reorder(cell, f.d, share, chunk, part, m, f.b)
        .gpu_blocks(part, m, f.b)
        .gpu_threads(f.d, share);
    f.sums.compute_at(grad_value, chunk)
        .store_in(MemoryType::GPUShared)
        .bound_extent(f.cell, knobs.share_cells)
        .bound_extent(f.share, knobs.shares)
        .bound_extent(f.part, 1)
        .bound_extent(f.d, knobs.channels)
        .reorder(f.cell, f.d, f.share)
        .gpu_threads(f.d, f.share);
}

/// The same for samples (corner, s, q) with `taps`. Returns the loop over samples of a thread that finds taps.
template <typename F, typename Knobs>
Halide::Var schedule_in_order_gpu(F &f, int fields, Halide::Func level_table, Halide::Func grad_value, const Halide::Var &k,
                                  const Knobs &knobs) {
    using namespace Halide;
    RVar qo{"qo"}, qi{"qi"}, so{"so"}, si{"si"};
    schedule_sums_in_order_gpu(f, f.m, grad_value, k, knobs);
    f.sums.update()
        .split(f.samples.y, so, si, knobs.group_samples, TailStrategy::GuardWithIf)
        .split(f.samples.z, qo, qi, knobs.shares, TailStrategy::GuardWithIf)
        .reorder(f.samples.x, si, qi, f.d, f.share, so, qo, f.part, f.m, f.b)
        .unroll(f.samples.x)
        .gpu_threads(f.d, f.share);
    schedule_tap_gpu(f, f.taps, fields, {f.sums, si});
    schedule_level_table_gpu(level_table, {f.sums, so});
    return schedule_taps_gpu(f, f.taps, fields, {f.sums, so}, knobs.group_samples, knobs.channels, knobs.shares);
}

}  // namespace deformkit
