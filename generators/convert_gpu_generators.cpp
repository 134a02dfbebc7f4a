// Whole tensors on a device: to another type, and from layout to layout.

#include "generators/shared/buffers.h"
#include "generators/shared/device.h"
#include "schedules/convert.h"
#include "schedules/convert_gpu_knobs.h"

namespace {

using namespace Halide;

/// input and output [N0, N1, N2, N3]; strides are free.
template <typename T, typename Knobs>
class ConvertGpu : public deformkit::VariantGenerator<T, Knobs> {
public:
    GeneratorInput<Buffer<void, 4>> input{"input"};
    GeneratorOutput<Buffer<void, 4>> output{"output"};

protected:
    const Var x{"x"}, y{"y"}, z{"z"}, w{"w"};

    void schedule() {
        deformkit::from_zero(input, output);
        const Knobs knobs = this->knobs;
        deformkit::schedule_convert_gpu(output, {x, y, z, w}, knobs.threads);
    }
};

/// Sums in float32, rounded: output as bits_type, of the same extents.
class ConvertNarrow : public ConvertGpu<ConvertNarrow, deformkit::ConvertNarrowGpuScheduleKnobs> {
public:
    void configure() {
        input.set_type(Float(32));
        output.set_type(deformkit::bits_type(storage_type));
    }

    void generate() {
        output(x, y, z, w) = deformkit::round_to_bits(storage_type, input(x, y, z, w), get_target());
        schedule();
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(ConvertNarrow, convert_narrow)
