#include "generators/algorithms/msda_backward.h"
#include "generators/algorithms/msda_forward.h"
#include "generators/shared/buffers.h"
#include "generators/shared/estimates.h"
#include "generators/shared/storage.h"
#include "schedules/msda_backward.h"
#include "schedules/msda_forward.h"
#include "schedules/msda_knobs.h"

namespace {

using namespace Halide;

// What autoschedulers may expect: the encoder of Deformable DETR, and a block of its queries.
constexpr int kChannels = 32, kHeads = 8, kSamples = 16, kCells = 22223, kBlock = 128;
constexpr int kKeyStep = kHeads * kChannels, kPositions = (kCells - 1) * kKeyStep + 1;

/// Shapes, fastest axis first, mins all zero:
///   value [D', M, (K - 1) * key_step + 1, B], D' >= D a multiple of the vector width;  level_table [M * S, 3];
///   sampling_locations [2, M * S, Q, B];  attention_weights [M * S, Q, B];  output [D, M, Q, B].
/// The innermost axes are dense; every other stride is free. Head-major takes value in the type of arithmetic.
template <deformkit::Traversal traversal, typename Knobs>
class MsdaForwardGenerator : public deformkit::VariantGenerator<MsdaForwardGenerator<traversal, Knobs>, Knobs> {
public:
    template <typename T>
    using Input = GeneratorInput<T>;
    template <typename T>
    using Output = GeneratorOutput<T>;
    using MsdaForwardGenerator::VariantGenerator::knobs;
    using MsdaForwardGenerator::VariantGenerator::lanes;
    using MsdaForwardGenerator::VariantGenerator::storage_type;

    Input<Buffer<void, 4>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<void, 4>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 3>> attention_weights{"attention_weights"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_samples{"num_samples"};
    Input<bool> check_cells{"check_cells"};
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
        in.num_channels = (output.dim(0).extent() + deformkit::kChannelMultiple - 1) / deformkit::kChannelMultiple *
                          deformkit::kChannelMultiple;
        in.num_keys = num_keys;
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        in.num_samples = num_samples;
        in.check_cells = check_cells;
        const Knobs own = knobs;
        const deformkit::MsdaForwardScheduleKnobs schedule{own.accumulators, own.samples_at_once};
        in.group = deformkit::msda_forward_group(traversal, num_samples, schedule);
        in.fused = target.has_feature(Target::FMA);
        deformkit::MsdaForward algorithm(in);
        output(algorithm.d, algorithm.m, algorithm.q, algorithm.b) = deformkit::round_to_storage(
            storage_type, algorithm.sum(algorithm.d, algorithm.m, algorithm.q, algorithm.b), target);

        deformkit::dense_from_zero(value, level_table, sampling_locations, attention_weights, output);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);

        value.dim(2).set_stride(1);
        if (this->using_autoscheduler()) {
            deformkit::estimate(value, {kChannels, kHeads, kPositions, 1});
            deformkit::estimate(level_table, {kHeads * kSamples, deformkit::kLevelRows});
            deformkit::estimate(sampling_locations, {2, kHeads * kSamples, kCells, 1});
            deformkit::estimate(attention_weights, {kHeads * kSamples, kCells, 1});
            deformkit::estimate(output, {kChannels, kHeads, kCells, 1});
            num_keys.set_estimate(kCells);
            key_step.set_estimate(kKeyStep);
            num_samples.set_estimate(kSamples);
            check_cells.set_estimate(false);
            query_tile.set_estimate(kBlock);
            return;
        }
        const bool common = deformkit::compute_type(storage_type).bits() == 32;
        const deformkit::MsdaForwardExtents extents{
            deformkit::compute_lanes(storage_type, lanes), traversal, query_tile, num_samples, check_cells, common};
        deformkit::schedule_msda_forward_cpu(algorithm, output, extents, schedule);
    }
};

/// Shapes, fastest axis first, mins all zero:
///   value [D', M, (K - 1) * key_step + 1], D' a multiple of 16;  level_table [M * S, 3];
///   sampling_locations [2, M * S, X, Y];  attention_weights [M * S, X, Y];  grad_output [D', M, X, Y];
///   grad_locations [2, M * S, X, Y];  grad_weights [M * S, X, Y]. Either gradient may have X = Y = 0: not wanted.
/// The innermost axes are dense; every other stride is free.
class MsdaBackwardSamples
    : public deformkit::VariantGenerator<MsdaBackwardSamples, deformkit::MsdaBackwardSamplesScheduleKnobs> {
public:
    Input<Buffer<void, 3>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<void, 4>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 3>> attention_weights{"attention_weights"};
    Input<Buffer<void, 4>> grad_output{"grad_output"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_samples{"num_samples"};
    Input<bool> check_cells{"check_cells"};
    Output<Buffer<void, 4>> grad_locations{"grad_locations"};
    Output<Buffer<void, 3>> grad_weights{"grad_weights"};

    void configure() {
        deformkit::set_types(storage_type, value, sampling_locations, attention_weights, grad_output, grad_locations,
                             grad_weights);
    }

    void generate() {
        const Target target = get_target();
        deformkit::MsdaBackwardSamplesInputs in;
        in.value = deformkit::widened(value, target);
        in.level_table = level_table;
        in.sampling_locations = deformkit::widened(sampling_locations, target);
        in.attention_weights = deformkit::widened(attention_weights, target);
        in.grad_output = deformkit::widened(grad_output, target);
        in.num_channels = grad_output.dim(0).extent() / deformkit::kChannelMultiple * deformkit::kChannelMultiple;
        in.num_heads = grad_output.dim(1).extent();
        in.num_keys = num_keys;
        in.key_step = key_step;
        in.max_position = value.dim(2).extent() - 1;
        in.num_samples = num_samples;
        in.check_cells = check_cells;
        deformkit::MsdaBackwardSamples algorithm(in);
        const Var &f = algorithm.f, &x = algorithm.x, &y = algorithm.y;
        grad_locations(algorithm.xy, f, x, y) = deformkit::round_to_storage(storage_type, algorithm.grad_location, target);
        grad_weights(f, x, y) = deformkit::round_to_storage(storage_type, algorithm.grad_weight, target);

        deformkit::dense_from_zero(value, level_table, sampling_locations, attention_weights, grad_output, grad_locations,
                                   grad_weights);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);
        grad_locations.dim(0).set_extent(2);
        grad_locations.dim(1).set_stride(2);
        level_table.dim(1).set_extent(deformkit::kLevelRows);
        value.dim(2).set_stride(1);

        if (using_autoscheduler()) {
            deformkit::estimate(value, {kChannels, kHeads, kPositions});
            deformkit::estimate(level_table, {kHeads * kSamples, deformkit::kLevelRows});
            deformkit::estimate(sampling_locations, {2, kHeads * kSamples, kBlock, 1});
            deformkit::estimate(attention_weights, {kHeads * kSamples, kBlock, 1});
            deformkit::estimate(grad_output, {kChannels, kHeads, kBlock, 1});
            deformkit::estimate(grad_locations, {2, kHeads * kSamples, kBlock, 1});
            deformkit::estimate(grad_weights, {kHeads * kSamples, kBlock, 1});
            num_keys.set_estimate(kCells);
            key_step.set_estimate(kKeyStep);
            num_samples.set_estimate(kSamples);
            check_cells.set_estimate(false);
            return;
        }
        const int type_lanes = deformkit::compute_lanes(storage_type, lanes);
        deformkit::schedule_msda_backward_samples_cpu(algorithm, grad_locations, grad_weights,
                                                      {type_lanes, grad_output.dim(0).extent(), num_samples, check_cells},
                                                      knobs);
    }
};

/// Shapes, fastest axis first, mins all zero:
///   sampling_locations [2, S * Q];  attention_weights [S * Q];  grad_output [D', Q], D' a multiple of 16;
///   slab [D', cells] in the type of arithmetic, added to.
/// The innermost axes are dense; every other stride is free.
class MsdaBackwardValue : public deformkit::VariantGenerator<MsdaBackwardValue, deformkit::MsdaBackwardValueScheduleKnobs> {
public:
    Input<Buffer<void, 2>> sampling_locations{"sampling_locations"};
    Input<Buffer<void, 1>> attention_weights{"attention_weights"};
    Input<Buffer<void, 2>> grad_output{"grad_output"};
    Input<int32_t> num_samples{"num_samples"};
    Input<int32_t> width{"width"};
    Input<int32_t> height{"height"};
    Input<int32_t> first_cell{"first_cell"};
    Input<bool> check_cells{"check_cells"};
    Output<Buffer<void, 2>> slab{"slab"};

    void configure() {
        deformkit::set_types(storage_type, sampling_locations, attention_weights, grad_output);
        slab.set_type(deformkit::compute_type(storage_type));
    }

    void generate() {
        const Target target = get_target();
        deformkit::MsdaBackwardValueInputs in;
        in.sampling_locations = deformkit::widened(sampling_locations, target);
        in.attention_weights = deformkit::widened(attention_weights, target);
        in.grad_output = deformkit::widened(grad_output, target);
        in.width = width;
        in.height = height;
        in.first_cell = first_cell;
        in.num_cells = slab.dim(1).extent();
        in.num_samples = num_samples;
        in.num_queries = grad_output.dim(1).extent();
        in.check_cells = check_cells;
        deformkit::MsdaBackwardValue algorithm(in, slab);

        deformkit::dense_from_zero(sampling_locations, attention_weights, grad_output, slab);
        sampling_locations.dim(0).set_extent(2);
        sampling_locations.dim(1).set_stride(2);

        if (using_autoscheduler()) {
            deformkit::estimate(sampling_locations, {2, kSamples / 4 * kCells});
            deformkit::estimate(attention_weights, {kSamples / 4 * kCells});
            deformkit::estimate(grad_output, {kChannels, kCells});
            deformkit::estimate(slab, {kChannels, kCells});
            num_samples.set_estimate(kSamples / 4);
            width.set_estimate(167);
            height.set_estimate(100);
            first_cell.set_estimate(0);
            check_cells.set_estimate(false);
            return;
        }
        deformkit::schedule_msda_backward_value_cpu(
            algorithm, {deformkit::compute_lanes(storage_type, lanes), slab.dim(0).extent(), in.num_samples, check_cells},
            knobs);
    }
};

}  // namespace

using MsdaForward = MsdaForwardGenerator<deformkit::Traversal::kGrouped, deformkit::MsdaForwardScheduleKnobs>;
using MsdaForwardHeadMajor =
    MsdaForwardGenerator<deformkit::Traversal::kHeadMajor, deformkit::MsdaForwardHeadMajorScheduleKnobs>;

HALIDE_REGISTER_GENERATOR(MsdaForward, msda_forward)
HALIDE_REGISTER_GENERATOR(MsdaForwardHeadMajor, msda_forward_head_major)
HALIDE_REGISTER_GENERATOR(MsdaBackwardSamples, msda_backward_samples)
HALIDE_REGISTER_GENERATOR(MsdaBackwardValue, msda_backward_value)
