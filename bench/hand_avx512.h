// A hand-written AVX-512 kernel: the bar that the generated forward kernel is compared with.
#pragma once

#include <cstdint>

namespace deformkit::bench {

/// What the kernel is written for: float32, 8 heads x 32 channels, 4 levels x 4 points.
constexpr int kHandHeads = 8, kHandChannels = 32, kHandLevels = 4, kHandPoints = 4;

struct HandLevel {
    int32_t height, width;
    int32_t start;  ///< first key
};

/// `queries` consecutive queries of one batch element, on one thread; all arrays dense.
/// The CPU must have AVX-512F and AVX-512DQ, and keys * 256 must fit in 31 bits.
void hand_msda_forward_avx512(const float *value, const HandLevel (&levels)[kHandLevels], const float *sampling_locations,
                              const float *attention_weights, float *output, int64_t queries);

}  // namespace deformkit::bench
