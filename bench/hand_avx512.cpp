// The only file that is compiled with AVX-512 flags: it includes nothing whose inline functions others could end up sharing.
//
// The 16 samples of a (query, head) pair fill one register, so that locations, corner offsets and corner weights of all samples
// take one instruction each. They go through the stack, from which the channel loop broadcasts them: 16 samples x 4 corners x 2
// registers of channels, in eight accumulators (one per corner and half: the latency of a fused multiply-add is four cycles).
//
// A corner outside its level gets weight 0 and offset 0. That is less than the library's contract asks for (NaN or Inf in key 0
// would leak, and levels that reach beyond the value are not caught), so the library has to do more work in the same time.
#include "bench/hand_avx512.h"

#include <immintrin.h>

namespace deformkit::bench {
namespace {

constexpr int kSamples = kHandLevels * kHandPoints;
constexpr int kRow = kHandHeads * kHandChannels;  ///< floats from a key, or a query's output, to the next
constexpr int kLanes = 16;
constexpr int kCorners = 4;
static_assert(kSamples == kLanes && kHandChannels == 2 * kLanes, "the kernel is written for these");

/// The level's properties, for each sample.
struct SampleLevels {
    __m512 width, height;
    __m512i int_width, int_height, start;
};

SampleLevels spread_over_samples(const HandLevel (&levels)[kHandLevels]) {
    alignas(64) int32_t width[kSamples], height[kSamples], start[kSamples];
    for (int s = 0; s < kSamples; s++) {
        const HandLevel &level = levels[s / kHandPoints];
        width[s] = level.width;
        height[s] = level.height;
        start[s] = level.start;
    }
    SampleLevels spread;
    spread.int_width = _mm512_load_si512(width);
    spread.int_height = _mm512_load_si512(height);
    spread.start = _mm512_load_si512(start);
    spread.width = _mm512_cvtepi32_ps(spread.int_width);
    spread.height = _mm512_cvtepi32_ps(spread.int_height);
    return spread;
}

/// Offsets in floats from the head's first channel of key 0.
struct Taps {
    alignas(64) int32_t offset[kCorners][kSamples];
    alignas(64) float weight[kCorners][kSamples];
};

inline void store_corner(Taps &taps, int corner, __mmask16 inside, __m512i row, __m512i column, __m512 weight) {
    static_assert(kRow == 1 << 8, "the shift below");
    _mm512_store_si512(taps.offset[corner], _mm512_maskz_slli_epi32(inside, _mm512_add_epi32(row, column), 8));
    _mm512_store_ps(taps.weight[corner], _mm512_maskz_mov_ps(inside, weight));
}

inline void make_taps(Taps &taps, const SampleLevels &levels, const float *locations, const float *weights) {
    const __m512i pick_x = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i pick_y = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    const __m512i one = _mm512_set1_epi32(1);
    const __m512 unit = _mm512_set1_ps(1.0f), half = _mm512_set1_ps(0.5f);

    const __m512 low = _mm512_loadu_ps(locations), high = _mm512_loadu_ps(locations + kLanes);
    const __m512 x = _mm512_fmsub_ps(_mm512_permutex2var_ps(low, pick_x, high), levels.width, half);
    const __m512 y = _mm512_fmsub_ps(_mm512_permutex2var_ps(low, pick_y, high), levels.height, half);
    const __m512 floor_x = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF);
    const __m512 floor_y = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEG_INF);

    // NaN and what does not fit become INT_MIN, which the unsigned comparisons find outside, as they do -1.
    const __m512i x0 = _mm512_cvtps_epi32(floor_x), x1 = _mm512_add_epi32(x0, one);
    const __m512i y0 = _mm512_cvtps_epi32(floor_y), y1 = _mm512_add_epi32(y0, one);
    const __mmask16 x0_inside = _mm512_cmplt_epu32_mask(x0, levels.int_width);
    const __mmask16 x1_inside = _mm512_cmplt_epu32_mask(x1, levels.int_width);
    const __mmask16 y0_inside = _mm512_cmplt_epu32_mask(y0, levels.int_height);
    const __mmask16 y1_inside = _mm512_cmplt_epu32_mask(y1, levels.int_height);

    const __m512i row0 = _mm512_add_epi32(levels.start, _mm512_mullo_epi32(y0, levels.int_width));
    const __m512i row1 = _mm512_add_epi32(row0, levels.int_width);

    const __m512 attention = _mm512_loadu_ps(weights);
    const __m512 right = _mm512_sub_ps(x, floor_x), left = _mm512_sub_ps(unit, right);
    const __m512 down = _mm512_sub_ps(y, floor_y);
    const __m512 lower = _mm512_mul_ps(attention, down), upper = _mm512_mul_ps(attention, _mm512_sub_ps(unit, down));

    store_corner(taps, 0, x0_inside & y0_inside, row0, x0, _mm512_mul_ps(left, upper));
    store_corner(taps, 1, x1_inside & y0_inside, row0, x1, _mm512_mul_ps(right, upper));
    store_corner(taps, 2, x0_inside & y1_inside, row1, x0, _mm512_mul_ps(left, lower));
    store_corner(taps, 3, x1_inside & y1_inside, row1, x1, _mm512_mul_ps(right, lower));
}

inline void gather_channels(const Taps &taps, const float *value, float *output) {
    __m512 sum[kCorners][2];
    for (auto &halves : sum) {
        halves[0] = halves[1] = _mm512_setzero_ps();
    }
    for (int s = 0; s < kSamples; s++) {
        for (int c = 0; c < kCorners; c++) {
            const float *cell = value + taps.offset[c][s];
            const __m512 weight = _mm512_set1_ps(taps.weight[c][s]);
            sum[c][0] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(cell), sum[c][0]);
            sum[c][1] = _mm512_fmadd_ps(weight, _mm512_loadu_ps(cell + kLanes), sum[c][1]);
        }
    }
    for (int h = 0; h < 2; h++) {
        const __m512 total = _mm512_add_ps(_mm512_add_ps(sum[0][h], sum[1][h]), _mm512_add_ps(sum[2][h], sum[3][h]));
        _mm512_storeu_ps(output + h * kLanes, total);
    }
}

}  // namespace

void hand_msda_forward_avx512(const float *value, const HandLevel (&levels)[kHandLevels], const float *sampling_locations,
                              const float *attention_weights, float *output, int64_t queries) {
    const SampleLevels sample_levels = spread_over_samples(levels);
    for (int64_t q = 0; q < queries; q++) {
        for (int m = 0; m < kHandHeads; m++) {
            const int64_t pair = q * kHandHeads + m;
            Taps taps;
            make_taps(taps, sample_levels, sampling_locations + pair * kSamples * 2, attention_weights + pair * kSamples);
            gather_channels(taps, value + m * kHandChannels, output + pair * kHandChannels);
        }
    }
}

}  // namespace deformkit::bench
