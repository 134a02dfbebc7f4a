// Shapes of real models and awkward ones: one table for tests and benches alike.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace deformkit::testing {

/// How sampling locations are drawn. They differ by more than 5x in cache misses.
enum class Locations {
    kNear,   ///< the query's own place plus Gaussian noise of 2 cells at each level (an encoder: queries are the cells)
    kWide,   ///< uniform over the map (the worst case of a decoder)
    kBoxes,  ///< per query a random box, points uniform inside (a usual decoder)
};

struct Level {
    int64_t height, width;
};

struct MsdaWorkload {
    std::string name;
    int64_t batch, queries, heads, channels;
    std::vector<Level> levels;
    int64_t points;
    Locations locations;

    int64_t keys() const;  ///< cells of all levels
};

/// Inputs in float32, dense, row-major, as the C interface describes them; indices int64.
struct MsdaInputs {
    std::vector<float> value, sampling_locations, attention_weights;
    std::vector<int64_t> spatial_shapes, level_start_index;
};

/// Deformable aggregation. Maps are those of one camera; all cameras have the same.
struct DaWorkload {
    std::string name;
    int64_t batch, anchors, points, cameras;
    std::vector<Level> scales;
    int64_t groups, channels;  ///< channels of a group
    double visible;            ///< share of the samples that take part

    int64_t cells() const;  ///< of all maps of all cameras
};

struct DaInputs {
    std::vector<float> feature_maps, sample_locations, weights;
    std::vector<int64_t> spatial_shape, scale_start_index;
};

const std::vector<DaWorkload> &da_model_workloads();
const std::vector<DaWorkload> &da_awkward_workloads();
DaInputs make_da_inputs(const DaWorkload &workload, uint32_t seed);

/// Geometric kernel attention: as MSDA, locations in cells, uniform over the maps and a little beyond.
const std::vector<MsdaWorkload> &gka_model_workloads();
MsdaInputs make_gka_inputs(const MsdaWorkload &workload, uint32_t seed);

const std::vector<MsdaWorkload> &msda_model_workloads();    ///< real models at full size (the benches' table)
const std::vector<MsdaWorkload> &msda_awkward_workloads();  ///< small and odd shapes
MsdaInputs make_msda_inputs(const MsdaWorkload &workload, uint32_t seed);
std::vector<float> uniform_numbers(int64_t count, uint32_t seed);  ///< in [-1, 1)

}  // namespace deformkit::testing
