#include "generators/algorithms/da_backward.h"
#include "generators/algorithms/da_forward.h"
#include "generators/shared/buffers.h"
#include "generators/shared/estimates.h"
#include "generators/shared/storage.h"
#include "schedules/da_backward.h"
#include "schedules/da_forward.h"
#include "schedules/da_knobs.h"

namespace {

using namespace Halide;

// What autoschedulers may expect: Sparse4D v3, and a block of its anchors.
constexpr int kChannels = 32, kGroups = 8, kPoints = 13, kCameras = 6, kScales = 4, kAnchors = 900, kBlock = 8;
constexpr int kLargestMap = 64 * 176, kKeys = kCameras * 14960;
constexpr int kKeyStep = kGroups * kChannels, kPositions = (kKeys - 1) * kKeyStep + 1;

/// Shapes, fastest axis first, mins all zero:
///   feature_maps [D', G, (K - 1) * key_step + 1, B], D' >= D a multiple of kChannelMultiple;  map_table [N * S, 3];
///   sample_locations [2, P * N, A * parts, B];  weights [G, S, P * N, A * parts, B];  output [D, G, A, B].
/// The innermost axes are dense; every other stride is free.
class DaForward : public deformkit::VariantGenerator<DaForward, deformkit::DaForwardScheduleKnobs> {
public:
    Input<Buffer<void, 4>> feature_maps{"feature_maps"};
    Input<Buffer<int32_t, 2>> map_table{"map_table"};
    Input<Buffer<void, 4>> sample_locations{"sample_locations"};
    Input<Buffer<void, 5>> weights{"weights"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_cameras{"num_cameras"};
    Input<int32_t> num_parts{"num_parts"};
    Input<bool> check_cells{"check_cells"};
    Input<int32_t> anchor_tile{"anchor_tile"};  // anchors per task
    Input<int32_t> part_tile{"part_tile"};      // anchors' parts per task within
    Output<Buffer<void, 4>> output{"output"};

    void configure() { deformkit::set_types(storage_type, feature_maps, sample_locations, weights, output); }

    void generate() {
        deformkit::DaForwardInputs in;
        in.feature_maps = deformkit::widened(feature_maps, get_target());
        in.map_table = map_table;
        in.sample_locations = deformkit::widened(sample_locations, get_target());
        in.weights = deformkit::widened(weights, get_target());
        in.num_keys = num_keys;
        in.num_points = sample_locations.dim(1).extent() / num_cameras;
        in.num_cameras = num_cameras;
        in.num_scales = weights.dim(1).extent();
        in.num_parts = num_parts;
        in.key_step = key_step;
        in.max_position = feature_maps.dim(2).extent() - 1;
        in.check_cells = check_cells;
        deformkit::DaForward f(in);
        output(f.d, f.g, f.a, f.b) = deformkit::round_to_storage(storage_type, f.total(f.d, f.g, f.a, f.b), get_target());

        deformkit::dense_from_zero(feature_maps, map_table, sample_locations, weights, output);
        feature_maps.dim(2).set_stride(1);
        sample_locations.dim(0).set_extent(2);
        sample_locations.dim(1).set_stride(2);
        map_table.dim(1).set_extent(deformkit::kLevelRows);
        if (using_autoscheduler()) {
            deformkit::estimate(feature_maps, {kChannels, kGroups, kPositions, 1});
            deformkit::estimate(map_table, {kCameras * kScales, deformkit::kLevelRows});
            deformkit::estimate(sample_locations, {2, kPoints * kCameras, kAnchors, 1});
            deformkit::estimate(weights, {kGroups, kScales, kPoints * kCameras, kAnchors, 1});
            deformkit::estimate(output, {kChannels, kGroups, kAnchors, 1});
            num_keys.set_estimate(kKeys);
            key_step.set_estimate(kKeyStep);
            num_cameras.set_estimate(kCameras);
            num_parts.set_estimate(1);
            check_cells.set_estimate(false);
            anchor_tile.set_estimate(kBlock);
            part_tile.set_estimate(kBlock);
            return;
        }
        deformkit::DaForwardScheduleKnobs schedule = knobs;
        if (schedule.accumulators == 0) {
            schedule.accumulators = lanes == 16 ? 16 : 8;
        }
        deformkit::schedule_da_forward_cpu(
            f, output, {deformkit::compute_lanes(storage_type, lanes), anchor_tile, part_tile, check_cells}, schedule);
    }
};

/// Shapes, fastest axis first, mins all zero:
///   feature_maps [D', G, (K - 1) * key_step + 1], D' >= D a multiple of kChannelMultiple;  map_table [S, 3];
///   sample_locations [2, P, A];  weights [G, S, P, A];  grad_output [D', G, A];
///   grad_locations [2, P, A];  grad_weights [G, S, P, A]. Either gradient may have A = 0: not wanted.
/// The innermost axes are dense; every other stride is free.
class DaBackwardSamples : public deformkit::VariantGenerator<DaBackwardSamples, deformkit::DaBackwardSamplesScheduleKnobs> {
public:
    Input<Buffer<void, 3>> feature_maps{"feature_maps"};
    Input<Buffer<int32_t, 2>> map_table{"map_table"};
    Input<Buffer<void, 3>> sample_locations{"sample_locations"};
    Input<Buffer<void, 4>> weights{"weights"};
    Input<Buffer<void, 3>> grad_output{"grad_output"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<bool> check_cells{"check_cells"};
    Output<Buffer<void, 3>> grad_locations{"grad_locations"};
    Output<Buffer<void, 4>> grad_weights{"grad_weights"};

    void configure() {
        deformkit::set_types(storage_type, feature_maps, sample_locations, weights, grad_output, grad_locations, grad_weights);
    }

    void generate() {
        deformkit::DaBackwardSamplesInputs in;
        in.feature_maps = deformkit::widened(feature_maps, get_target());
        in.map_table = map_table;
        in.sample_locations = deformkit::widened(sample_locations, get_target());
        in.weights = deformkit::widened(weights, get_target());
        in.grad_output = deformkit::widened(grad_output, get_target());
        in.num_channels = grad_output.dim(0).extent() / deformkit::kChannelMultiple * deformkit::kChannelMultiple;
        in.num_groups = weights.dim(0).extent();
        in.num_keys = num_keys;
        in.num_points = sample_locations.dim(1).extent();
        in.num_scales = weights.dim(1).extent();
        in.key_step = key_step;
        in.max_position = feature_maps.dim(2).extent() - 1;
        in.check_cells = check_cells;
        deformkit::DaBackwardSamples f(in);
        grad_locations(f.xy, f.p, f.v) = deformkit::round_to_storage(storage_type, f.grad_location, get_target());
        grad_weights(f.g, f.s, f.p, f.v) = deformkit::round_to_storage(storage_type, f.grad_weight, get_target());

        deformkit::dense_from_zero(feature_maps, map_table, sample_locations, weights, grad_output, grad_locations,
                                   grad_weights);
        feature_maps.dim(2).set_stride(1);
        sample_locations.dim(0).set_extent(2);
        grad_locations.dim(0).set_extent(2);
        map_table.dim(1).set_extent(deformkit::kLevelRows);
        if (using_autoscheduler()) {
            deformkit::estimate(feature_maps, {kChannels, kGroups, kPositions});
            deformkit::estimate(map_table, {kScales, deformkit::kLevelRows});
            deformkit::estimate(sample_locations, {2, kPoints, kBlock});
            deformkit::estimate(weights, {kGroups, kScales, kPoints, kBlock});
            deformkit::estimate(grad_output, {kChannels, kGroups, kBlock});
            deformkit::estimate(grad_locations, {2, kPoints, kBlock});
            deformkit::estimate(grad_weights, {kGroups, kScales, kPoints, kBlock});
            num_keys.set_estimate(kKeys);
            key_step.set_estimate(kKeyStep);
            check_cells.set_estimate(false);
            return;
        }
        deformkit::schedule_da_backward_samples_cpu(
            f, grad_locations, grad_weights,
            {deformkit::compute_lanes(storage_type, lanes), in.num_channels, in.num_groups, check_cells}, knobs);
    }
};

/// Shapes, fastest axis first, mins all zero:
///   map_table [1, 3];  sample_locations [2, P, A];  weights [G, P, A];  grad_output [D', G, A], D' a multiple of
///   kChannelMultiple; slab [D', G, cells], in the type of arithmetic.
/// The innermost axes are dense; every other stride is free.
class DaBackwardValue : public deformkit::VariantGenerator<DaBackwardValue, deformkit::DaBackwardValueScheduleKnobs> {
public:
    Input<Buffer<int32_t, 2>> map_table{"map_table"};
    Input<Buffer<void, 3>> sample_locations{"sample_locations"};
    Input<Buffer<void, 3>> weights{"weights"};
    Input<Buffer<void, 3>> grad_output{"grad_output"};
    Input<bool> check_cells{"check_cells"};
    Output<Buffer<void, 3>> slab{"slab"};

    void configure() {
        deformkit::set_types(storage_type, sample_locations, weights, grad_output);
        slab.set_type(deformkit::compute_type(storage_type));
    }

    void generate() {
        deformkit::DaBackwardValueInputs in;
        in.map_table = map_table;
        in.sample_locations = deformkit::widened(sample_locations, get_target());
        in.weights = deformkit::widened(weights, get_target());
        in.grad_output = deformkit::widened(grad_output, get_target());
        in.slab = slab;
        in.num_cells = slab.dim(2).extent();
        in.num_points = sample_locations.dim(1).extent();
        in.num_anchors = sample_locations.dim(2).extent();
        in.check_cells = check_cells;
        deformkit::DaBackwardValue f(in);

        deformkit::dense_from_zero(map_table, sample_locations, weights, grad_output, slab);
        sample_locations.dim(0).set_extent(2);
        map_table.dim(1).set_extent(deformkit::kLevelRows);
        if (using_autoscheduler()) {
            deformkit::estimate(map_table, {1, deformkit::kLevelRows});
            deformkit::estimate(sample_locations, {2, kPoints, kAnchors});
            deformkit::estimate(weights, {kGroups, kPoints, kAnchors});
            deformkit::estimate(grad_output, {kChannels, kGroups, kAnchors});
            deformkit::estimate(slab, {kChannels, kGroups, kLargestMap});
            check_cells.set_estimate(false);
            return;
        }
        deformkit::schedule_da_backward_value_cpu(
            f, {deformkit::compute_lanes(storage_type, lanes), slab.dim(0).extent(), slab.dim(1).extent(), check_cells}, knobs);
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(DaForward, da_forward)
HALIDE_REGISTER_GENERATOR(DaBackwardSamples, da_backward_samples)
HALIDE_REGISTER_GENERATOR(DaBackwardValue, da_backward_value)
