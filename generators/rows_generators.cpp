// What passes ask of rows of channels, whatever the operator.

#include "generators/algorithms/rows_passes.h"
#include "generators/shared/buffers.h"
#include "generators/shared/sampling.h"
#include "generators/shared/storage.h"
#include "schedules/rows.h"
#include "schedules/rows_knobs.h"

namespace {

using namespace Halide;

/// input [D', M, Q], D' a multiple of 16; output [1], uint32 (uint64 for float64): see RowsMagnitude.
class RowsMagnitude : public deformkit::VariantGenerator<RowsMagnitude, deformkit::RowsMagnitudeScheduleKnobs> {
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

}  // namespace

HALIDE_REGISTER_GENERATOR(RowsMagnitude, rows_magnitude)
