// What the schedules of deformable aggregation's passes share.
#pragma once

#include <algorithm>

#include "generators/algorithms/da_visible.h"
#include "schedules/da_knobs.h"

namespace deformkit {

/// Calls `schedule(stage, d vectors, groups)` for `update` and for specialisations of it to common sizes: loops over so many
/// vectors of a group's channels and so many groups are to be unrolled, `accumulators` in all where the sizes allow it. Only
/// one asks samples whether they touch any cell: a branch among sums costs up to 1.07x the time as a plain test, and 1.16x to 1.4x
/// in the other form that was tried (2-core EPYC, AVX-512).
template <typename Schedule>
void for_common_groups(Halide::Stage update, const Halide::Expr &channels, const Halide::Expr &groups, int lanes,
                       int accumulators, const Halide::Expr &check_cells, const Schedule &schedule) {
    schedule(update.specialize(check_cells), 1, 1);
    for (const DaCommonSize &common : kDaCommonSizes) {
        const int vectors = std::max(1, common.channels / lanes), most = std::max(1, accumulators / vectors);
        const int unrolled = common.groups == 0 ? most : common.groups;
        if (common.groups < most) {
            schedule(update.specialize(channels == common.channels && groups % unrolled == 0), vectors, unrolled);
        }
    }
    schedule(update, 1, 1);
}

/// Memory of the kind `Stack` is kept from one turn of a loop to the next; of its size, only the compiler knows nothing.
inline void schedule_da_visible(DaVisible &visible, const Halide::LoopLevel &at, int vector) {
    visible.visible.vectorize(visible.p, vector, Halide::TailStrategy::GuardWithIf);
    for (Halide::Func *each : {&visible.visible, &visible.slot, &visible.list}) {
        each->compute_at(at).store_in(Halide::MemoryType::Stack);
    }
}

}  // namespace deformkit
