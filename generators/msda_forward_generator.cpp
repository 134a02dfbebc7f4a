#include "../schedules/msda_forward.h"
#include "buffers.h"
#include "msda_forward.h"
#include "storage.h"

namespace {

using namespace Halide;

/// Shapes, fastest axis first, mins all zero:
///   value [D', M, (K - 1) * key_step + 1, B], D' >= D a multiple of the vector width, K >= 2;  level_table [M * S, 3];
///   sampling_locations [2, M * S, Q, B];  attention_weights [M * S, Q, B];  output [D, M, Q, B].
/// The innermost axes are dense; every other stride is free. Head-major takes value in the type of arithmetic.
template <deformkit::Traversal traversal>
class MsdaForwardGenerator : public deformkit::VariantGenerator<MsdaForwardGenerator<traversal>> {
public:
    template <typename T>
    using Input = GeneratorInput<T>;
    template <typename T>
    using Output = GeneratorOutput<T>;
    using MsdaForwardGenerator::VariantGenerator::lanes;
    using MsdaForwardGenerator::VariantGenerator::storage_type;

    Input<Buffer<void, 4>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<void, 4>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 3>> attention_weights{"attention_weights"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_samples{"num_samples"};
    Input<bool> careful{"careful"};
    Input<int32_t> query_tile{"query_tile"};
    Output<Buffer<void, 4>> output{"output"};

    void configure() {
        const bool copied = traversal == deformkit::Traversal::kHeadMajor;
        value.set_type(copied ? deformkit::compute_type(storage_type) : Type(storage_type));
        deformkit::set_types(storage_type, sampling_locations, attention_weights, output);
    }

    void generate() {
        const Target target = this->get_target();
        deformkit::MsdaForwardInputs in;
        in.value = deformkit::widened(value, target);
        in.level_table = level_table;
        in.sampling_locations = deformkit::widened(sampling_locations, target);
        in.attention_weights = deformkit::widened(attention_weights, target);
        in.num_channels = output.dim(0).extent();
        in.num_keys = num_keys;
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        in.num_samples = num_samples;
        in.careful = careful;
        const bool gpu = target.has_gpu_feature();
        in.fused = gpu || target.has_feature(Target::FMA);
        deformkit::MsdaForward algorithm(in, /*recheck=*/!gpu);
        output(algorithm.d, algorithm.m, algorithm.q, algorithm.b) =
            deformkit::round_to_storage(storage_type, algorithm.result, target);

        deformkit::dense_from_zero(value, level_table, sampling_locations, attention_weights, output);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);

        if (gpu) {
            deformkit::schedule_msda_forward_gpu(algorithm, output);
        } else {
            value.dim(2).set_stride(1);
            const bool common = deformkit::compute_type(storage_type).bits() == 32;
            const deformkit::MsdaForwardCpuKnobs knobs{deformkit::compute_lanes(storage_type, lanes), traversal, query_tile,
                                                       num_samples, common};
            deformkit::schedule_msda_forward_cpu(algorithm, output, knobs);
        }
    }
};

}  // namespace

using MsdaForward = MsdaForwardGenerator<deformkit::Traversal::kGrouped>;
using MsdaForwardHeadMajor = MsdaForwardGenerator<deformkit::Traversal::kHeadMajor>;

HALIDE_REGISTER_GENERATOR(MsdaForward, msda_forward)
HALIDE_REGISTER_GENERATOR(MsdaForwardHeadMajor, msda_forward_head_major)
