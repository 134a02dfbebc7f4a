#include "../schedules/msda_forward.h"
#include "buffers.h"
#include "msda_forward.h"

namespace {

using namespace Halide;

/// Shapes, fastest axis first, mins all zero:
///   value [D', M, K, B], D' >= D a multiple of the vector width, K >= 2;  level_table [S, 3];
///   sampling_locations [2, S, M, Q, B];  attention_weights [S, M, Q, B];  output [D, M, Q, B].
/// The innermost axes are dense; every other stride is free.
class MsdaForwardGenerator : public Generator<MsdaForwardGenerator> {
public:
    Input<Buffer<void, 4>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<void, 5>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 4>> attention_weights{"attention_weights"};
    Input<bool> careful{"careful"};
    Input<bool> head_major{"head_major"};      // traversal, see schedules/msda_forward_cpu.cpp
    Input<int32_t> query_tile{"query_tile"};
    Output<Buffer<void, 4>> output{"output"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        value.set_type(storage_type);
        sampling_locations.set_type(storage_type);
        attention_weights.set_type(storage_type);
        output.set_type(storage_type);
    }

    void generate() {
        deformkit::MsdaForwardInputs in;
        in.value = value;
        in.level_table = level_table;
        in.sampling_locations = sampling_locations;
        in.attention_weights = attention_weights;
        in.num_channels = output.dim(0).extent();
        in.num_keys = value.dim(2).extent();
        in.num_samples = attention_weights.dim(0).extent();
        in.careful = careful;
        const bool gpu = get_target().has_gpu_feature();
        deformkit::MsdaForward algorithm(in, /*recheck=*/!gpu);
        output(algorithm.d, algorithm.m, algorithm.q, algorithm.b) = cast(output.type(), algorithm.result);

        deformkit::dense_from_zero(value);
        deformkit::dense_from_zero(level_table);
        deformkit::dense_from_zero(sampling_locations);
        deformkit::dense_from_zero(attention_weights);
        deformkit::dense_from_zero(output);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        sampling_locations.dim(1).set_extent(in.num_samples);
        level_table.dim(0).set_extent(in.num_samples);
        level_table.dim(1).set_extent(deformkit::kLevelRows).set_stride(in.num_samples);

        if (gpu) {
            deformkit::schedule_msda_forward_gpu(algorithm, output);
        } else {
            const deformkit::MsdaForwardCpuKnobs knobs{lanes, head_major, query_tile, in.num_samples};
            deformkit::schedule_msda_forward_cpu(algorithm, output, knobs);
        }
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(MsdaForwardGenerator, msda_forward)
