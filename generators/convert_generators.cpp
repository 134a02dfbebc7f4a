// Whole tensors to the type of arithmetic and back.

#include "generators/shared/buffers.h"
#include "generators/shared/sampling.h"
#include "generators/shared/storage.h"
#include "schedules/convert.h"
#include "schedules/convert_knobs.h"

namespace {

using namespace Halide;

/// input [D, M, cells], output the same in another type.
template <typename T, typename Knobs>
class Convert : public deformkit::VariantGenerator<T, Knobs> {
public:
    GeneratorInput<Buffer<void, 3>> input{"input"};
    GeneratorOutput<Buffer<void, 3>> output{"output"};

protected:
    void convert(const Func &converted) {
        const Var d{"d"}, m{"m"}, cell{"cell"};
        output(d, m, cell) = converted(d, m, cell);
        deformkit::dense_from_zero(input, output);
        const Knobs knobs = this->knobs;
        deformkit::schedule_convert_cpu(output, {d, m, cell}, deformkit::compute_lanes(this->storage_type, this->lanes),
                                        knobs.common_channels);
    }
};

/// To the type of arithmetic.
class ConvertWiden : public Convert<ConvertWiden, deformkit::ConvertWidenScheduleKnobs> {
public:
    void configure() {
        input.set_type(storage_type);
        output.set_type(deformkit::compute_type(storage_type));
    }

    void generate() { convert(deformkit::widened(input, get_target())); }
};

/// From there, rounded.
class ConvertNarrow : public Convert<ConvertNarrow, deformkit::ConvertNarrowScheduleKnobs> {
public:
    void configure() {
        input.set_type(deformkit::compute_type(storage_type));
        output.set_type(storage_type);
    }

    void generate() {
        const Func sums = input;
        Func rounded("rounded");
        rounded(_) = deformkit::round_to_storage(storage_type, sums(_), get_target());
        convert(rounded);
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(ConvertWiden, convert_widen)
HALIDE_REGISTER_GENERATOR(ConvertNarrow, convert_narrow)
