// A workload's tensors in memory, as DLPack sees them.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "workloads.h"

namespace deformkit::bench {

/// Float storage that starts `offset` floats behind a 64-byte boundary (a cache line, and an AVX-512 register).
class AlignedFloats {
public:
    explicit AlignedFloats(int64_t size, int64_t offset = 0);

    float *data() const { return memory_.get() + offset_; }

private:
    struct Free {
        void operator()(float *p) const { std::free(p); }
    };
    std::unique_ptr<float, Free> memory_;
    int64_t offset_;
};

/// The same inputs for everything that is measured: make_msda_inputs() with this seed.
constexpr uint32_t kInputSeed = 1;

struct MsdaProblem {
    /// `value_offset`: floats by which the value misses a 64-byte boundary; all else is on one.
    explicit MsdaProblem(const testing::MsdaWorkload &workload, int64_t value_offset = 0);

    int64_t samples() const;
    int64_t bytes() const;  ///< five inputs and the output, each once

    const testing::MsdaWorkload workload;
    std::vector<int64_t> shapes[6];
    std::vector<int64_t> spatial_shapes_data, level_start_index_data;
    AlignedFloats value_data, sampling_locations_data, attention_weights_data, output_data;
    DLTensor value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output;
};

}  // namespace deformkit::bench
