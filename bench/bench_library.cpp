// What run_bench.py needs from C++, so that nothing is typed twice: the tables, the inputs, and the hand-written kernel.
#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>

#include "hand.h"
#include "problem.h"
#include "variants.h"
#include "workloads.h"

#define BENCH_API extern "C" __attribute__((visibility("default")))

namespace {

using namespace deformkit::bench;
using deformkit::testing::Level;
using deformkit::testing::MsdaInputs;
using deformkit::testing::MsdaWorkload;

const MsdaWorkload &workload_at(int index) {
    return deformkit::testing::msda_model_workloads().at(static_cast<size_t>(index));
}

std::string tables() {
    std::ostringstream json;
    json << "{\"variants\": [";
    const char *comma = "";
    for (const Variant &v : variants_of("msda", "forward", "f32")) {
        json << comma << "{\"name\": \"" << v.name() << "\", \"target\": \"" << v.target
             << "\", \"on_device\": " << (v.on_device() ? "true" : "false") << "}";
        comma = ", ";
    }
    json << "], \"workloads\": [";
    comma = "";
    for (const MsdaWorkload &w : deformkit::testing::msda_model_workloads()) {
        json << comma << "{\"name\": \"" << w.name << "\", \"batch\": " << w.batch << ", \"queries\": " << w.queries
             << ", \"heads\": " << w.heads << ", \"channels\": " << w.channels << ", \"keys\": " << w.keys()
             << ", \"points\": " << w.points << ", \"hand_written\": " << (hand_msda_supports(w) ? "true" : "false")
             << ", \"levels\": [";
        const char *between = "";
        for (const Level &level : w.levels) {
            json << between << "[" << level.height << ", " << level.width << "]";
            between = ", ";
        }
        json << "]}";
        comma = ", ";
    }
    json << "]}";
    return json.str();
}

}  // namespace

/// JSON: the variants of MSDA forward, best first, and the model workloads. `hand_written`: this machine has that kernel for
/// it.
BENCH_API const char *deformkit_bench_tables() {
    static const std::string json = tables();
    return json.c_str();
}

/// Fills the inputs of a workload of the table (dense, as the public header describes them; indices int64).
BENCH_API void deformkit_bench_fill(int workload, float *value, int64_t *spatial_shapes, int64_t *level_start_index,
                                    float *sampling_locations, float *attention_weights) {
    const MsdaInputs inputs = deformkit::testing::make_msda_inputs(workload_at(workload), kInputSeed);
    std::copy(inputs.value.begin(), inputs.value.end(), value);
    std::copy(inputs.spatial_shapes.begin(), inputs.spatial_shapes.end(), spatial_shapes);
    std::copy(inputs.level_start_index.begin(), inputs.level_start_index.end(), level_start_index);
    std::copy(inputs.sampling_locations.begin(), inputs.sampling_locations.end(), sampling_locations);
    std::copy(inputs.attention_weights.begin(), inputs.attention_weights.end(), attention_weights);
}

/// The hand-written kernel; only where the table says so.
BENCH_API void deformkit_bench_hand_msda(int workload, const float *value, const int64_t *spatial_shapes,
                                         const int64_t *level_start_index, const float *sampling_locations,
                                         const float *attention_weights, float *output, int num_threads) {
    hand_msda_forward(workload_at(workload), value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                      output, num_threads);
}
