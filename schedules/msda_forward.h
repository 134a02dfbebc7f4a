#pragma once

#include "generators/algorithms/msda_forward.h"
#include "schedules/msda_knobs.h"

namespace deformkit {

/// The way through a tile of queries.
enum class Traversal {
    kGrouped,    ///< four samples (usually one level) at a time for all queries and heads: few samples per cell (decoders)
    kHeadMajor,  ///< head by head, all samples of a query at once: many samples per cell
};

struct MsdaForwardExtents {
    int lanes;  ///< of the type of arithmetic in a vector register
    Traversal traversal;
    Halide::Expr query_tile;  ///< queries per task
    Halide::Expr num_samples, check_cells;
    bool specialize_common_sizes;  ///< more code and time to compile for more speed
};

/// Samples that are added up in registers, see MsdaForwardInputs.
Halide::Expr msda_forward_group(Traversal traversal, const Halide::Expr &num_samples, const MsdaForwardScheduleKnobs &knobs);
void schedule_msda_forward_cpu(MsdaForward &f, Halide::Func output, const MsdaForwardExtents &extents,
                               const MsdaForwardScheduleKnobs &knobs);

}  // namespace deformkit
