// What passes do with rows of channels, whatever the operator.

#include "../schedules/rows.h"
#include "buffers.h"
#include "rows.h"
#include "sampling.h"
#include "storage.h"

namespace {

using namespace Halide;

/// input [D', M, Q], D' a multiple of 16; output [1], uint32 (uint64 for float64): see RowsMagnitude.
class RowsMagnitude : public Generator<RowsMagnitude> {
public:
    Input<Buffer<void, 3>> input{"input"};
    Output<Buffer<void, 1>> output{"output"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        input.set_type(storage_type);
        output.set_type(UInt(deformkit::compute_type(storage_type).bits()));
    }

    void generate() {
        const Expr channels = input.dim(0).extent() / deformkit::kChannelMultiple * deformkit::kChannelMultiple;
        deformkit::RowsMagnitude algorithm(deformkit::widened(input, get_target()), channels, input.dim(1).extent(),
                                           input.dim(2).extent());
        output(algorithm.x) = algorithm.result;
        deformkit::dense_from_zero(input);
        deformkit::dense_from_zero(output);
        deformkit::schedule_rows_magnitude_cpu(algorithm, deformkit::compute_lanes(storage_type, lanes));
    }
};

/// input [D, M, cells]; output [D, M, cells] in the type of arithmetic.
class RowsWiden : public Generator<RowsWiden> {
public:
    Input<Buffer<void, 3>> input{"input"};
    Output<Buffer<void, 3>> output{"output"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        input.set_type(storage_type);
        output.set_type(deformkit::compute_type(storage_type));
    }

    void generate() {
        deformkit::RowsWiden algorithm(deformkit::widened(input, get_target()));
        output(algorithm.d, algorithm.m, algorithm.cell) = algorithm.result;
        deformkit::dense_from_zero(input);
        deformkit::dense_from_zero(output);
        deformkit::schedule_rows_widen_cpu(algorithm, output, deformkit::compute_lanes(storage_type, lanes));
    }
};

/// slabs [D', cells, M, parts] in the type of arithmetic, D' a multiple of 16;  output [D, M, cells], D <= D'.
class RowsReduce : public Generator<RowsReduce> {
public:
    Input<Buffer<void, 4>> slabs{"slabs"};
    Output<Buffer<void, 3>> output{"output"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        slabs.set_type(deformkit::compute_type(storage_type));
        output.set_type(storage_type);
    }

    void generate() {
        deformkit::RowsReduce algorithm(slabs, slabs.dim(3).extent());
        output(algorithm.d, algorithm.m, algorithm.cell) =
            deformkit::round_to_storage(storage_type, algorithm.result, get_target());
        deformkit::dense_from_zero(slabs);
        deformkit::dense_from_zero(output);
        deformkit::schedule_rows_reduce_cpu(algorithm, output,
                                            {deformkit::compute_lanes(storage_type, lanes), slabs.dim(3).extent()});
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(RowsMagnitude, rows_magnitude)
HALIDE_REGISTER_GENERATOR(RowsWiden, rows_widen)
HALIDE_REGISTER_GENERATOR(RowsReduce, rows_reduce)
