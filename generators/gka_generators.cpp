#include "generators/algorithms/gka_passes.h"
#include "generators/shared/buffers.h"
#include "generators/shared/storage.h"
#include "schedules/gka.h"
#include "schedules/gka_knobs.h"

namespace {

using namespace Halide;

/// Shapes, fastest axis first, mins all zero:
///   value [D', (K - 1) * key_step + 1], D' >= D a multiple of kChannelMultiple;  level_table [S, 3];
///   sampling_locations [2, S, Q], bits of LocationKind;  attention_weights [S, Q];  output [D, Q].
/// The innermost axes are dense; every other stride is free.
class GkaForward : public deformkit::VariantGenerator<GkaForward, deformkit::GkaForwardScheduleKnobs> {
public:
    Input<Buffer<void, 2>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<int32_t, 3>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 2>> attention_weights{"attention_weights"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> location_kind{"location_kind"};
    Input<bool> careful{"careful"};
    Output<Buffer<void, 2>> output{"output"};

    void configure() {
        for (auto *input : {&value, &attention_weights}) {
            input->set_type(storage_type);
        }
        output.set_type(storage_type);
    }

    void generate() {
        deformkit::GkaInputs in;
        in.value = deformkit::widened(value, get_target());
        in.level_table = level_table;
        in.sampling_locations = sampling_locations;
        in.attention_weights = deformkit::widened(attention_weights, get_target());
        in.num_keys = num_keys;
        in.num_samples = level_table.dim(0).extent();
        in.location_kind = location_kind;
        in.key_step = key_step;
        in.max_position = value.dim(1).extent() - 1;
        in.careful = careful;
        deformkit::GkaForward f(in);
        output(f.d, f.q) = deformkit::round_to_storage(storage_type, f.sum(f.d, f.q), get_target());

        deformkit::dense_from_zero(value, level_table, sampling_locations, attention_weights, output);
        value.dim(1).set_stride(1);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
        const int compute_lanes = deformkit::compute_lanes(storage_type, lanes);
        deformkit::schedule_gka_forward_cpu(f, output, {compute_lanes, output.dim(0).extent(), in.num_samples, careful});
    }
};

/// The same with grad_output [D', Q] and grad_weights [S, Q].
class GkaBackwardSamples : public deformkit::VariantGenerator<GkaBackwardSamples, deformkit::GkaBackwardSamplesScheduleKnobs> {
public:
    Input<Buffer<void, 2>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<int32_t, 3>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 2>> grad_output{"grad_output"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> location_kind{"location_kind"};
    Input<bool> careful{"careful"};
    Output<Buffer<void, 2>> grad_weights{"grad_weights"};

    void configure() {
        for (auto *input : {&value, &grad_output}) {
            input->set_type(storage_type);
        }
        grad_weights.set_type(storage_type);
    }

    void generate() {
        deformkit::GkaInputs in;
        in.value = deformkit::widened(value, get_target());
        in.level_table = level_table;
        in.sampling_locations = sampling_locations;
        in.grad_output = deformkit::widened(grad_output, get_target());
        in.num_channels = grad_output.dim(0).extent() / deformkit::kChannelMultiple * deformkit::kChannelMultiple;
        in.num_keys = num_keys;
        in.num_samples = level_table.dim(0).extent();
        in.location_kind = location_kind;
        in.key_step = key_step;
        in.max_position = value.dim(1).extent() - 1;
        in.careful = careful;
        deformkit::GkaBackwardSamples f(in);
        grad_weights(f.s, f.q) = deformkit::round_to_storage(storage_type, f.grad_weight, get_target());

        deformkit::dense_from_zero(value, level_table, sampling_locations, grad_output, grad_weights);
        value.dim(1).set_stride(1);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
        const int compute_lanes = deformkit::compute_lanes(storage_type, lanes);
        deformkit::schedule_gka_backward_samples_cpu(f, grad_weights,
                                                     {compute_lanes, in.num_channels, in.num_samples, careful});
    }
};

/// Shapes, fastest axis first, mins all zero:
///   level_table [S, 3];  sampling_locations [2, S, Q];  attention_weights [S, Q];  grad_output [D', Q], D' a multiple of
///   kChannelMultiple;  slab [D', cells], in the type of arithmetic.
/// The innermost axes are dense; every other stride is free.
class GkaBackwardValue : public deformkit::VariantGenerator<GkaBackwardValue, deformkit::GkaBackwardValueScheduleKnobs> {
public:
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<int32_t, 3>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 2>> attention_weights{"attention_weights"};
    Input<Buffer<void, 2>> grad_output{"grad_output"};
    Input<int32_t> location_kind{"location_kind"};
    Input<bool> careful{"careful"};
    Output<Buffer<void, 2>> slab{"slab"};

    void configure() {
        deformkit::set_types(storage_type, attention_weights, grad_output);
        slab.set_type(deformkit::compute_type(storage_type));
    }

    void generate() {
        deformkit::GkaBackwardValueInputs in;
        in.level_table = level_table;
        in.sampling_locations = sampling_locations;
        in.attention_weights = deformkit::widened(attention_weights, get_target());
        in.grad_output = deformkit::widened(grad_output, get_target());
        in.slab = slab;
        in.num_cells = slab.dim(1).extent();
        in.num_samples = attention_weights.dim(0).extent();
        in.num_queries = attention_weights.dim(1).extent();
        in.location_kind = location_kind;
        in.careful = careful;
        deformkit::GkaBackwardValue f(in);

        deformkit::dense_from_zero(level_table, sampling_locations, attention_weights, grad_output, slab);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
        deformkit::schedule_gka_backward_value_cpu(
            f, {deformkit::compute_lanes(storage_type, lanes), slab.dim(0).extent(), in.num_samples, careful});
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(GkaForward, gka_forward)
HALIDE_REGISTER_GENERATOR(GkaBackwardSamples, gka_backward_samples)
HALIDE_REGISTER_GENERATOR(GkaBackwardValue, gka_backward_value)
