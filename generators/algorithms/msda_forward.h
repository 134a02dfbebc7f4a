// Multi-scale deformable attention, forward: the algorithm.
//
//   output[b, q, m * D + d] = sum over samples s of attention_weights[b, q, m, s] * (bilinear sample s of value[b, :, m, d])
//
// Axes, fastest first: d channel of a head, m head, k key, q query, b batch, s sample. A sample is one point on one level: the
// runtime hands over the level's size and first key for each, so that levels may hold different numbers of points. Samples of
// all heads lie on one dense axis, f = m * S + s.
#pragma once

#include <Halide.h>

#include "generators/shared/sampling.h"

namespace deformkit {

/// Numbers come in the type of arithmetic.
struct MsdaForwardInputs {
    Halide::Func value;               ///< (d, m, k * key_step, b)
    Halide::Func level_table;         ///< (f, LevelRow)
    Halide::Func sampling_locations;  ///< (xy, f, q, b)
    Halide::Func attention_weights;   ///< (f, q, b)
    Halide::Expr num_channels, num_keys, num_samples;
    /// Steps of value's third axis from key to key. With that axis of stride 1 and the keys' stride as the step, a key becomes
    /// an address by a multiplication per tap instead of one per load.
    Halide::Expr key_step, max_position;
    bool fused = false;    ///< the target multiplies and adds in one instruction
    Halide::Expr careful;  ///< some level reaches outside `value`: every cell has to be checked
};

/// What a sample boils down to: where (as bits) its two cell pairs lie on value's third axis, one on each row, and four
/// weights. One array rather than six: a sum then reads one stream of memory beside the cells.
enum TapField { kPairPosition = 0, kCornerWeight = 2, kTapFields = 6 };

/// Two ways to the same result. `sum` multiplies a cell that does not count by zero, which is right unless that cell is NaN or
/// infinite. `exact` leaves it out, at several times the cost. `suspect` tells where the first may differ from the second.
struct MsdaForward {
    Halide::Var d{"d"}, m{"m"}, q{"q"}, b{"b"}, s{"s"}, f{"f"}, field{"field"};
    Halide::RDom samples, channels, exact_samples;

    Halide::Func taps{"taps"};            ///< (f, TapField, q, b)
    Halide::Func head_taps{"head_taps"};  ///< the same as (s, TapField, m, q, b)
    Halide::Func sum{"sum"};              ///< (d, m, q, b)
    Halide::Func suspect{"suspect"};      ///< (m, q, b)
    Halide::Func exact{"exact"};          ///< (d, m, q, b), undefined where nothing is suspect

    Halide::Expr result;  ///< of (d, m, q, b)

    /// `recheck`: `sum`, corrected by `exact` where suspect (CPUs). Otherwise `exact` alone (GPUs, where a predicated load is
    /// as cheap as a plain one).
    MsdaForward(const MsdaForwardInputs &inputs, bool recheck);
};

}  // namespace deformkit
