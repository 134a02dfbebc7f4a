// What the schedules of deformable aggregation's passes share.
#pragma once

#include <algorithm>

#include "generators/algorithms/da_visible.h"

namespace deformkit {

/// Calls `schedule(stage, d vectors, groups)` for `update` and for specialisations of it to common sizes: loops over so many
/// vectors of a group's channels and so many groups are to be unrolled, `accumulators` in all where the sizes allow it.
template <typename Schedule>
void for_common_groups(Halide::Stage update, const Halide::Expr &channels, const Halide::Expr &groups, int lanes,
                       int accumulators, const Schedule &schedule) {
    for (int common : {32, 16, 64}) {
        const int vectors = std::max(1, common / lanes), most = std::max(1, accumulators / vectors);
        schedule(update.specialize(channels == common && groups % most == 0), vectors, most);
        if (common == 32 && most > 2) {
            schedule(update.specialize(channels == common && groups % 2 == 0), vectors, 2);
        }
    }
    schedule(update, 1, 1);
}

/// Memory of the kind `Stack` is kept from one turn of a loop to the next; of its size, only the compiler knows nothing.
inline void schedule_da_visible(DaVisible &visible, const Halide::LoopLevel &at, int lanes) {
    // By vectors of 8, what is left one by one: an anchor has a dozen points.
    visible.visible.vectorize(visible.p, std::min(lanes, 8), Halide::TailStrategy::GuardWithIf);
    for (Halide::Func *each : {&visible.visible, &visible.slot, &visible.list}) {
        each->compute_at(at).store_in(Halide::MemoryType::Stack);
    }
}

}  // namespace deformkit
