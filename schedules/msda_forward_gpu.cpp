#include "schedules/gpu.h"
#include "schedules/msda_gpu.h"

namespace deformkit {

using namespace Halide;

void schedule_msda_forward_gpu(MsdaForward &f, Func level_table, Func output, const Expr &query_tile,
                               const MsdaForwardGpuScheduleKnobs &knobs) {
    const Var round = schedule_sums_gpu(f, f.head_taps, kCornerFields, level_table, output, query_tile, knobs);
    f.found.compute_at(f.head_taps, round).store_in(MemoryType::Register);
}

}  // namespace deformkit
