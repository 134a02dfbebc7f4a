#include "schedules/msda_forward.h"

namespace deformkit {

using namespace Halide;

// A plain schedule: a thread per channel, eight pairs of head and query per block. Neighbouring threads read neighbouring
// channels, so that every corner is one contiguous read per head.
void schedule_msda_forward_gpu(MsdaForward &f, Func output) {
    Var pair{"pair"}, block{"block"}, thread{"thread"}, channel{"channel"}, chunk{"chunk"};
    output.fuse(f.m, f.q, pair)
        .split(pair, block, thread, 8, TailStrategy::GuardWithIf)
        .split(f.d, chunk, channel, 32, TailStrategy::GuardWithIf)
        .reorder(channel, thread, chunk, block, f.b)
        .gpu_blocks(chunk, block, f.b)
        .gpu_threads(channel, thread);
    f.sum.compute_at(output, channel);
    f.of_group.compute_at(f.sum, f.groups);
}

}  // namespace deformkit
