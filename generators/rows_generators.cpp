// What passes do with rows of channels, whatever the operator.

#include "generators/algorithms/rows_passes.h"
#include "generators/shared/buffers.h"
#include "generators/shared/sampling.h"
#include "generators/shared/storage.h"
#include "schedules/rows.h"

namespace {

using namespace Halide;

/// input [D', M, Q], D' a multiple of 16; output [1], uint32 (uint64 for float64): see RowsMagnitude.
class RowsMagnitude : public deformkit::VariantGenerator<RowsMagnitude> {
public:
    Input<Buffer<void, 3>> input{"input"};
    Output<Buffer<void, 1>> output{"output"};

    void configure() {
        input.set_type(storage_type);
        output.set_type(UInt(deformkit::compute_type(storage_type).bits()));
    }

    void generate() {
        const Expr channels = input.dim(0).extent() / deformkit::kChannelMultiple * deformkit::kChannelMultiple;
        deformkit::RowsMagnitude algorithm(deformkit::widened(input, get_target()), channels, input.dim(1).extent(),
                                           input.dim(2).extent());
        output(algorithm.x) = algorithm.result;
        deformkit::dense_from_zero(input, output);
        deformkit::schedule_rows_magnitude_cpu(algorithm, deformkit::compute_lanes(storage_type, lanes));
    }
};

/// input [D, M, cells], output the same in another type.
template <typename T>
class RowsConvert : public deformkit::VariantGenerator<T> {
public:
    GeneratorInput<Buffer<void, 3>> input{"input"};
    GeneratorOutput<Buffer<void, 3>> output{"output"};

protected:
    void convert(const Func &converted) {
        const Var d{"d"}, m{"m"}, cell{"cell"};
        output(d, m, cell) = converted(d, m, cell);
        deformkit::dense_from_zero(input, output);
        deformkit::schedule_rows_convert_cpu(output, {d, m, cell}, deformkit::compute_lanes(this->storage_type, this->lanes));
    }
};

/// To the type of arithmetic.
class RowsWiden : public RowsConvert<RowsWiden> {
public:
    void configure() {
        input.set_type(storage_type);
        output.set_type(deformkit::compute_type(storage_type));
    }

    void generate() { convert(deformkit::widened(input, get_target())); }
};

/// From there, rounded.
class RowsNarrow : public RowsConvert<RowsNarrow> {
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

HALIDE_REGISTER_GENERATOR(RowsMagnitude, rows_magnitude)
HALIDE_REGISTER_GENERATOR(RowsWiden, rows_widen)
HALIDE_REGISTER_GENERATOR(RowsNarrow, rows_narrow)
