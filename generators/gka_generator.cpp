#include "../schedules/gka.h"
#include "buffers.h"
#include "gka.h"
#include "storage.h"

namespace {

using namespace Halide;

/// Shapes, fastest axis first, mins all zero:
///   value [D', M, (K - 1) * key_step + 1, B], D' a multiple of kChannelMultiple;  level_table [M * S, 3];
///   sampling_locations [2, M * S, Q, B], the bits of LocationKind;  attention_weights [M * S, Q, B];  output [D, M, Q, B].
/// The innermost axes are dense; every other stride is free.
class GkaForward : public Generator<GkaForward> {
public:
    Input<Buffer<void, 4>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<int32_t, 4>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 3>> attention_weights{"attention_weights"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_samples{"num_samples"};
    Input<int32_t> location_kind{"location_kind"};
    Input<bool> careful{"careful"};
    Input<int32_t> query_tile{"query_tile"};
    Output<Buffer<void, 4>> output{"output"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        value.set_type(storage_type);
        attention_weights.set_type(storage_type);
        output.set_type(storage_type);
    }

    void generate() {
        deformkit::GkaInputs in;
        in.value = value;
        in.level_table = level_table;
        in.sampling_locations = sampling_locations;
        in.attention_weights = attention_weights;
        in.num_heads = output.dim(1).extent();
        in.num_keys = num_keys;
        in.num_samples = num_samples;
        in.location_kind = location_kind;
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        in.careful = careful;
        deformkit::GkaForward f(in);
        output(f.d, f.m, f.q, f.b) = deformkit::round_to_storage(storage_type, f.sum(f.d, f.m, f.q, f.b));

        deformkit::dense_from_zero(value);
        deformkit::dense_from_zero(level_table);
        deformkit::dense_from_zero(sampling_locations);
        deformkit::dense_from_zero(attention_weights);
        deformkit::dense_from_zero(output);
        value.dim(2).set_stride(1);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
        deformkit::schedule_gka_forward_cpu(
            f, output, {deformkit::compute_lanes(storage_type, lanes), output.dim(0).extent(), num_samples, careful}, query_tile);
    }
};

/// Shapes as above, for one batch item, with grad_output [D', M, Q] and grad_weights [M * S, Q].
class GkaBackwardSamples : public Generator<GkaBackwardSamples> {
public:
    Input<Buffer<void, 4>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<int32_t, 4>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_samples{"num_samples"};
    Input<int32_t> location_kind{"location_kind"};
    Input<bool> careful{"careful"};
    Output<Buffer<void, 3>> grad_weights{"grad_weights"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        value.set_type(storage_type);
        grad_output.set_type(storage_type);
        grad_weights.set_type(storage_type);
    }

    void generate() {
        deformkit::GkaInputs in;
        in.value = value;
        in.level_table = level_table;
        in.sampling_locations = sampling_locations;
        in.grad_output = grad_output;
        in.num_channels = grad_output.dim(0).extent() / deformkit::kChannelMultiple * deformkit::kChannelMultiple;
        in.num_heads = grad_output.dim(1).extent();
        in.num_keys = num_keys;
        in.num_samples = num_samples;
        in.location_kind = location_kind;
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        in.careful = careful;
        deformkit::GkaBackwardSamples f(in);
        grad_weights(f.f, f.q, f.b) = deformkit::round_to_storage(storage_type, f.grad_weight);

        deformkit::dense_from_zero(value);
        deformkit::dense_from_zero(level_table);
        deformkit::dense_from_zero(sampling_locations);
        deformkit::dense_from_zero(grad_output);
        deformkit::dense_from_zero(grad_weights);
        value.dim(2).set_stride(1);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
        deformkit::schedule_gka_backward_samples_cpu(
            f, grad_weights, {deformkit::compute_lanes(storage_type, lanes), in.num_channels, num_samples, careful});
    }
};

/// Shapes, fastest axis first, mins all zero:
///   level_table [1, 3];  sampling_locations [2, P, Q];  attention_weights [P, Q];  grad_output [D', Q], D' a multiple of
///   kChannelMultiple;  slab [D', cells], in the type of arithmetic.
/// The innermost axes are dense; every other stride is free.
class GkaBackwardValue : public Generator<GkaBackwardValue> {
public:
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<int32_t, 3>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 2>> attention_weights{"attention_weights"};
    Input<Buffer<void, 2>> grad_output{"grad_output"};
    Input<int32_t> location_kind{"location_kind"};
    Input<bool> careful{"careful"};
    Input<bool> clear{"clear"};
    Output<Buffer<void, 2>> slab{"slab"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        attention_weights.set_type(storage_type);
        grad_output.set_type(storage_type);
        slab.set_type(deformkit::compute_type(storage_type));
    }

    void generate() {
        deformkit::GkaBackwardValueInputs in;
        in.level_table = level_table;
        in.sampling_locations = sampling_locations;
        in.attention_weights = attention_weights;
        in.grad_output = grad_output;
        in.slab = slab;
        in.num_cells = slab.dim(1).extent();
        in.num_points = attention_weights.dim(0).extent();
        in.num_queries = attention_weights.dim(1).extent();
        in.location_kind = location_kind;
        in.careful = careful;
        in.clear = clear;
        deformkit::GkaBackwardValue f(in);

        deformkit::dense_from_zero(level_table);
        deformkit::dense_from_zero(sampling_locations);
        deformkit::dense_from_zero(attention_weights);
        deformkit::dense_from_zero(grad_output);
        deformkit::dense_from_zero(slab);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
        deformkit::schedule_gka_backward_value_cpu(
            f, {deformkit::compute_lanes(storage_type, lanes), slab.dim(0).extent(), in.num_points, careful});
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(GkaForward, gka_forward)
HALIDE_REGISTER_GENERATOR(GkaBackwardSamples, gka_backward_samples)
HALIDE_REGISTER_GENERATOR(GkaBackwardValue, gka_backward_value)
