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

const std::vector<MsdaWorkload> &msda_model_workloads();    ///< real models at full size (the benches' table)
const std::vector<MsdaWorkload> &msda_awkward_workloads();  ///< small and odd shapes
MsdaInputs make_msda_inputs(const MsdaWorkload &workload, uint32_t seed);

}  // namespace deformkit::testing
