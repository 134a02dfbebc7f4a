#include "../schedules/da_forward.h"
#include "buffers.h"
#include "da_forward.h"
#include "storage.h"

namespace {

using namespace Halide;

/// Shapes, fastest axis first, mins all zero:
///   feature_maps [C', (K - 1) * key_step + 1, B], C' >= C a multiple of 16;  map_table [N * S, 3];
///   sample_locations [2, P * N, A * parts, B];  weights [G, S, P * N, A * parts, B];  output [C, A, B].
/// The innermost axes are dense; every other stride is free.
class DaForward : public Generator<DaForward> {
public:
    Input<Buffer<void, 3>> feature_maps{"feature_maps"};
    Input<Buffer<int32_t, 2>> map_table{"map_table"};
    Input<Buffer<void, 4>> sample_locations{"sample_locations"};
    Input<Buffer<void, 5>> weights{"weights"};
    Input<int32_t> channels_per_group{"channels_per_group"};
    Input<int32_t> num_keys{"num_keys"};
    Input<int32_t> key_step{"key_step"};
    Input<int32_t> num_cameras{"num_cameras"};
    Input<int32_t> num_parts{"num_parts"};
    Input<bool> careful{"careful"};
    Input<int32_t> anchor_tile{"anchor_tile"};  // anchors per task
    Input<int32_t> part_tile{"part_tile"};      // anchors' parts per task within
    Output<Buffer<void, 3>> output{"output"};

    GeneratorParam<Type> storage_type{"storage_type", Float(32)};
    GeneratorParam<int> lanes{"lanes", 8};  // of float32 in a vector register

    void configure() {
        feature_maps.set_type(storage_type);
        sample_locations.set_type(storage_type);
        weights.set_type(storage_type);
        output.set_type(storage_type);
    }

    void generate() {
        deformkit::DaInputs in;
        in.feature_maps = feature_maps;
        in.map_table = map_table;
        in.sample_locations = sample_locations;
        in.weights = weights;
        in.num_groups = weights.dim(0).extent();
        in.channels_per_group = channels_per_group;
        in.num_keys = num_keys;
        in.num_points = sample_locations.dim(1).extent() / num_cameras;
        in.num_cameras = num_cameras;
        in.num_scales = weights.dim(1).extent();
        in.num_parts = num_parts;
        in.key_step = key_step;
        in.max_position = feature_maps.dim(1).extent() - 1;
        in.careful = careful;
        deformkit::DaForward algorithm(in);
        output(algorithm.c, algorithm.a, algorithm.b) = deformkit::round_to_storage(storage_type, algorithm.total(algorithm.c, algorithm.a, algorithm.b));

        deformkit::dense_from_zero(feature_maps);
        deformkit::dense_from_zero(map_table);
        deformkit::dense_from_zero(sample_locations);
        deformkit::dense_from_zero(weights);
        deformkit::dense_from_zero(output);
        feature_maps.dim(1).set_stride(1);
        sample_locations.dim(0).set_extent(2);
        sample_locations.dim(1).set_stride(2);
        map_table.dim(1).set_extent(deformkit::kLevelRows);

        const int width = deformkit::compute_type(storage_type).bits() == 64 ? lanes / 2 : int(lanes);
        deformkit::schedule_da_forward_cpu(algorithm, output, {width, lanes >= 16 ? 16 : 8, channels_per_group, anchor_tile, part_tile, careful});
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(DaForward, da_forward)
