#include "schedules/convert.h"

namespace deformkit {

using namespace Halide;

// Neighbouring threads write neighbours, of two axes together: the first alone may be short. The third, of cells or queries, is the
// longest: only the first axis of blocks may have more than 65535.
void schedule_convert_gpu(Func output, const std::vector<Var> &axes, int threads) {
    Var flat{"flat"}, block{"block"}, thread{"thread"};
    output.fuse(axes[0], axes[1], flat)
        .split(flat, block, thread, threads, TailStrategy::GuardWithIf)
        .reorder(thread, axes[2], block, axes[3])
        .gpu_blocks(axes[2], block, axes[3])
        .gpu_threads(thread);
}

}  // namespace deformkit
