// Tensors of a device between layouts: what its kernels cannot read or write in place.

#include "generators/shared/buffers.h"
#include "schedules/copy_gpu_knobs.h"

namespace {

using namespace Halide;

/// to[to_offset + index * to_strides] = from[from_offset + index * from_strides], or zero, for `count` indices, of which
/// axes follow each other from the fastest to the slowest; all in elements. Elements of `to` do not overlap.
class CopyStrided : public deformkit::VariantGenerator<CopyStrided, deformkit::CopyStridedGpuScheduleKnobs> {
public:
    Input<Buffer<void, 1>> from{"from"};
    Input<int32_t> count{"count"};
    Input<int32_t[deformkit::kCopyAxes]> extents{"extents"};
    Input<int32_t> from_offset{"from_offset"};
    Input<int32_t[deformkit::kCopyAxes]> from_strides{"from_strides"};
    Input<int32_t> to_offset{"to_offset"};
    Input<int32_t[deformkit::kCopyAxes]> to_strides{"to_strides"};
    Input<bool> zero{"zero"};
    Output<Buffer<void, 1>> to{"to"};

    void configure() { deformkit::set_types(storage_type, from, to); }

    void generate() {
        const RDom i(0, count, "i");
        Expr rest = i, from_at = from_offset, to_at = to_offset;
        for (int axis = 0; axis < deformkit::kCopyAxes; axis++) {
            const bool last = axis + 1 == deformkit::kCopyAxes;
            const Expr index = last ? rest : rest % extents[axis];
            from_at += index * from_strides[axis];
            to_at += index * to_strides[axis];
            rest = last ? rest : rest / extents[axis];
        }
        const Var x{"x"}, thread_x{"thread_x"};
        to(x) = undef(to.type());
        to(unsafe_promise_clamped(to_at, 0, to.dim(0).extent() - 1)) =
            select(zero, cast(to.type(), 0), from(unsafe_promise_clamped(from_at, 0, from.dim(0).extent() - 1)));

        deformkit::dense_from_zero(from, to);
        const deformkit::CopyStridedGpuScheduleKnobs own = knobs;
        const RVar block{"block"}, thread{"thread"};
        // Nothing is computed first; but where nothing is scheduled, Halide asks for memory of the host.
        Func(to).gpu_tile(x, thread_x, own.block_threads, TailStrategy::GuardWithIf);
        Func(to)
            .update()
            .allow_race_conditions()
            .split(i, block, thread, own.block_threads, TailStrategy::GuardWithIf)
            .gpu_blocks(block)
            .gpu_threads(thread);
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(CopyStrided, copy_strided)
