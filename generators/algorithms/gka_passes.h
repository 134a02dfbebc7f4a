// Geometric kernel attention: the algorithms of its passes.
//
//   output[b, q, m, d] = sum over samples s of attention_weights[b, q, m, s] * value[b, cell of sample s, m, d]
//
// Axes as in msda_forward.h. A sample is one cell: its location, in cells, truncated toward zero and clamped to the map. With
// g = grad_output[b, q, m, :]:
//   samples:  the dot product of g with the sample's cell is the gradient of its weight
//   value:    the cell gains (the sample's weight) * g
//
#pragma once

#include <Halide.h>

#include "generators/shared/contract.h"
#include "generators/shared/sampling.h"
#include "generators/shared/sums_in_order.h"

namespace deformkit {

/// One coordinate of a location, an integer, float32 or float64, as an int32: truncated, zero where it is negative, the largest
/// int32 where it is larger still; the smallest where the location is nowhere.
Halide::Expr cell_along(const Halide::Expr &location);

/// The maps and locations of one call.
struct GkaSamples {
    Halide::Func level_table;         ///< (s, LevelRow)
    Halide::Func sampling_locations;  ///< (xy, s, m, q, b), as bits
    Halide::Expr num_samples, num_keys, location_kind;
    Halide::Expr check_cells;      ///< some map is empty or reaches outside [0, num_keys), whatever its size and first key
    bool fused = false;            ///< the target multiplies and adds in one instruction
    bool checks_by_level = false;  ///< instead, row kCheckCells of level_table says so

    /// In [0, num_keys), or -1 where the sample does not count: its location is nowhere, or its cell none of the tensor's.
    Halide::Expr key(const Halide::Var &s, const Halide::Var &m, const Halide::Var &q, const Halide::Var &b) const;
    /// One more product in a sum. Where that is two instructions the compiler would be free to sum in any order, and would take
    /// another for a tile's last queries than for the rest.
    Halide::Expr add(const Halide::Expr &sum, const Halide::Expr &product) const;
};

/// Where samples lie, and what is there.
struct GkaCells : GkaSamples {
    Halide::Func value;                   ///< (d, m, k * key_step, b)
    Halide::Expr key_step, max_position;  ///< see MsdaForwardInputs
};

struct GkaForward {
    enum Field { kPosition = 0, kWeight = 1, kFields = 2 };

    Halide::Var d{"d"}, m{"m"}, q{"q"}, b{"b"}, s{"s"}, field{"field"};
    Halide::RDom all_samples, samples, some_samples;

    Halide::Func taps{"taps"};      ///< (s, Field, m, q, b); the position as bits, -1 where the sample does not count
    Halide::Func lowest{"lowest"};  ///< (m, q, b): the smallest position: -1 where some sample does not count
    /// (d, m, q, b). Only where some sample does not count is each asked: a cell that is NaN does not become harmless by a
    /// weight of zero.
    Halide::Func sum{"sum"};

    /// attention_weights (s, m, q, b).
    GkaForward(const GkaCells &cells, const Halide::Func &attention_weights);
};

struct GkaBackwardSamples {
    Halide::Var s{"s"}, m{"m"}, q{"q"}, b{"b"}, lane{"lane"};
    Halide::RDom vectors, lanes;

    Halide::Func positions{"positions"};  ///< (s, m, q, b)
    Halide::Func partial{"partial"};      ///< (lane, s, m, q, b)
    Halide::Func dot{"dot"};              ///< (s, m, q, b)

    Halide::Expr grad_weight;  ///< of (s, m, q, b), in the type of arithmetic

    /// grad_output (d, m, q, b), of `num_channels`, a multiple of `num_lanes`: so many sums are taken beside each other.
    GkaBackwardSamples(const GkaCells &cells, const Halide::Func &grad_output, const Halide::Expr &num_channels, int num_lanes);
};

/// Samples of one head: of all levels or of one.
struct GkaBackwardValueInputs : GkaSamples {
    Halide::Func attention_weights;  ///< (s, m, q, b)
    Halide::Func grad_output;        ///< (d, m, q, b)
    Halide::Expr num_queries;
};

struct GkaBackwardValue {
    Halide::Var d{"d"}, m{"m"}, b{"b"}, cell{"cell"}, s{"s"}, q{"q"};
    Halide::RDom samples;

    Halide::Func cells{"cells"};  ///< (s, m, q, b): -1 where the sample does not count
    Halide::Func slab;            ///< (d, m, cell, b), in the type of arithmetic

    /// `slab` is to be defined. If it `holds_zeros`, they need not be written.
    GkaBackwardValue(const GkaBackwardValueInputs &inputs, const Halide::Func &slab, bool holds_zeros);
};

/// The same for GPUs, where taps lie sample by sample and numbers are those of a word's channels.
struct GkaGroupedForward {
    Halide::Var d{"d"}, m{"m"}, q{"q"}, b{"b"}, s{"s"}, g{"g"}, field{"field"};
    Halide::RDom samples, groups;

    Halide::Func taps{"taps"};          ///< (Field, s, m, q, b), as above
    Halide::Func of_group{"of_group"};  ///< (d, g, m, q, b): the sum of a group of samples
    Halide::Func sum{"sum"};            ///< (d, m, q, b): of all

    GkaGroupedForward(const GkaCells &cells, const Halide::Func &attention_weights, int group);
};

/// num_lanes * rounds * words_per_lane are all words.
struct GkaLaneBackwardSamples {
    Halide::Var word{"word"}, lane{"lane"}, s{"s"}, m{"m"}, q{"q"}, b{"b"};
    Halide::RDom words, rounds, lanes;

    Halide::Func positions{"positions"};  ///< (s, m, q, b)
    Halide::Func gradient{"gradient"};    ///< (word, lane, m, q, b): grad_output's channels of a lane
    Halide::Func cell{"cell"};            ///< (word, lane, s, m, q, b): the cell's
    Halide::Func partial{"partial"};      ///< (lane, s, m, q, b): grad_output * the cell, of a lane's words
    Halide::Func partials{"partials"};    ///< the same, for others to read
    Halide::Func dot{"dot"};              ///< (s, m, q, b)

    Halide::Expr grad_weight;  ///< of (s, m, q, b)

    GkaLaneBackwardSamples(const GkaCells &cells, const Halide::Func &grad_output, const Halide::Expr &num_lanes,
                           const Halide::Expr &rounds, int words_per_lane);
};

/// What a sample adds to.
struct GkaLaneTaps {
    Halide::Var m{"m"}, b{"b"}, s{"s"}, q{"q"}, field{"field"};

    Halide::Func taps{"taps"};  ///< (Field, s, m, q, b); a key, -1 where the sample does not count

    explicit GkaLaneTaps(const GkaBackwardValueInputs &inputs);
};

struct GkaLaneBackwardValue : GkaLaneTaps {
    Halide::Var d{"d"}, k{"k"}, step{"step"}, lane{"lane"};
    Halide::RDom samples;  ///< (step, lane, s, q)

    Halide::Func gradient{"gradient"};  ///< (step, lane, m, q, b): of channel step * num_lanes + lane
    Halide::Func grad_value;            ///< (d, m, k, b), in float32

    /// grad_output (d, m, q, b). So many neighbouring channels are added at once.
    GkaLaneBackwardValue(const GkaBackwardValueInputs &inputs, const Halide::Expr &num_channels, int num_lanes,
                         const Halide::Func &grad_value);
};

struct GkaLaneBackwardValueInOrder : GkaLaneTaps, SumsInOrder {
    /// samples: (0, s, q)
    GkaLaneBackwardValueInOrder(const GkaBackwardValueInputs &inputs, int cells, int shares);
};

}  // namespace deformkit
