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
    Halide::Func value;                                ///< (d, m, k * key_step, b)
    Halide::Func level_table;                          ///< (f, LevelRow)
    Halide::Func sampling_locations;                   ///< (xy, f, q, b)
    Halide::Func attention_weights;                    ///< (f, q, b)
    Halide::Expr num_channels, num_keys, num_samples;  ///< channels in whole vectors
    Halide::Expr group;  ///< so many samples, a divisor of num_samples, are added up before they are added to the sum
    /// Steps of value's third axis from key to key. With that axis of stride 1 and the keys' stride as the step, a key becomes
    /// an address by a multiplication per tap instead of one per load.
    Halide::Expr key_step, max_position;
    bool fused = false;        ///< the target multiplies and adds in one instruction
    Halide::Expr check_cells;  ///< some level reaches outside `value`: every cell has to be checked
    /// Samples have an axis for heads: level_table (s, LevelRow), sampling_locations (xy, s, m, q, b), attention_weights (s, m, q,
    /// b). The last group is filled up, and each level says by itself, in row kCheckCells, whether its cells are to be checked.
    bool by_head = false;
};

struct MsdaForward {
    Halide::Var d{"d"}, m{"m"}, q{"q"}, b{"b"}, s{"s"}, f{"f"}, g{"g"}, field{"field"};
    Halide::RDom samples, groups, check;

    Halide::Func taps{"taps"};            ///< (f, TapField, q, b)
    Halide::Func head_taps{"head_taps"};  ///< the same as (s, TapField, m, q, b); by head, (s, CornerField, m, q, b)
    Halide::Func found{"found"};          ///< only by head: (s, m, q, b), CornerFields
    Halide::Func of_group{"of_group"};    ///< (d, g, m, q, b): the sum of a group of samples
    Halide::Func sum{"sum"};              ///< (d, m, q, b): of all

    explicit MsdaForward(const MsdaForwardInputs &inputs);
};

}  // namespace deformkit
