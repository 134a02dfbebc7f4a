// A workload's tensors in memory, as DLPack sees them.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "types.h"
#include "workloads.h"

namespace deformkit::bench {

/// Storage that starts `offset` bytes behind a 64-byte boundary (a cache line, and an AVX-512 register).
class AlignedMemory {
public:
    explicit AlignedMemory(int64_t bytes, int64_t offset = 0);

    unsigned char *data() const { return memory_.get() + offset_; }
    const float *floats() const { return reinterpret_cast<const float *>(data()); }
    float *floats() { return reinterpret_cast<float *>(data()); }

private:
    struct Free {
        void operator()(unsigned char *p) const { std::free(p); }
    };
    std::unique_ptr<unsigned char, Free> memory_;
    int64_t offset_;
};

/// The same inputs for everything that is measured: make_msda_inputs() with this seed.
constexpr uint32_t kInputSeed = 1;

struct MsdaProblem {
    /// `value_offset`: bytes by which the value misses a 64-byte boundary; all else is on one.
    MsdaProblem(const testing::MsdaWorkload &workload, testing::Type type, int64_t value_offset);

    int64_t samples() const;
    int64_t bytes() const;  ///< five inputs and the output, each once

    const testing::MsdaWorkload workload;
    const testing::Type type;
    std::vector<int64_t> shapes[6];
    std::vector<int64_t> spatial_shapes_data, level_start_index_data;
    AlignedMemory value_data, sampling_locations_data, attention_weights_data, output_data;
    DLTensor value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output;
};

}  // namespace deformkit::bench
