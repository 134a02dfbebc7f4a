// Multi-scale deformable attention, backward: the algorithm, in two passes that need nothing of each other.
//
// Axes as in msda_forward.h, with the queries of one block as a grid (x, y). With g = grad_output[b, q, m, :] and a = the
// sample's attention weight:
//   samples:  the dot products of g with the four cells that a sample touches give the gradients of a and of the location
//   value:    each of those cells gains (corner weight) * a * g
//
// The runtime calls either for one block of queries at a time, and neither is parallel in itself.
#pragma once

#include <Halide.h>

#include "generators/shared/sampling.h"
#include "generators/shared/sums_in_order.h"

namespace deformkit {

/// Numbers come in the type of arithmetic, here and below.
struct MsdaBackwardSamplesInputs {
    Halide::Func value;               ///< (d, m, k * key_step), see MsdaForwardInputs
    Halide::Func level_table;         ///< (f, LevelRow)
    Halide::Func sampling_locations;  ///< (xy, f, x, y)
    Halide::Func attention_weights;   ///< (f, x, y)
    Halide::Func grad_output;         ///< (d, m, x, y)
    Halide::Expr num_channels, num_keys, num_heads, num_samples;
    Halide::Expr key_step, max_position;
    Halide::Expr check_cells;  ///< some level reaches outside `value`: every cell has to be checked
};

struct MsdaBackwardSamples {
    Halide::Var f{"f"}, j{"j"}, c{"c"}, m{"m"}, s{"s"}, x{"x"}, y{"y"}, xy{"xy"};
    Halide::RDom channels, head_samples;

    Halide::Func positions{"positions"};  ///< (f, c, x, y): where the cell of corner c lies on value's third axis, as bits
    Halide::Func dot{"dot"};              ///< (s, c, m, x, y): g * the cell of corner c
    Halide::Func dots{"dots"};            ///< (f, c, x, y): the same by f

    Halide::Expr grad_location, grad_weight;  ///< of (xy, f, x, y) and (f, x, y), in the type of arithmetic

    explicit MsdaBackwardSamples(const MsdaBackwardSamplesInputs &inputs);
};

/// The samples that one head has on one level, on one dense axis: f = s + S * q.
struct MsdaBackwardValueInputs {
    Halide::Func sampling_locations;  ///< (xy, f)
    Halide::Func attention_weights;   ///< (f)
    Halide::Func grad_output;         ///< (d, q)
    Halide::Expr width, height;       ///< of the level
    Halide::Expr first_cell;          ///< of the level, in the slab
    Halide::Expr num_cells, num_samples, num_queries;
    Halide::Expr check_cells;  ///< the level reaches outside the slab: every cell has to be checked
};

struct MsdaBackwardValue {
    Halide::Var d{"d"}, cell{"cell"}, f{"f"}, field{"field"};
    Halide::RDom corners;

    Halide::Func taps{"taps"};  ///< (f, TapField)
    Halide::Func slab;          ///< (d, cell), in the type of arithmetic; what is there already counts

    MsdaBackwardValue(const MsdaBackwardValueInputs &inputs, const Halide::Func &slab);
};

/// What follows is for GPUs: all queries and batch items at once, with axes as in msda_forward.h by head.
struct MsdaHeadSamples {
    Halide::Func level_table;         ///< (s, LevelRow), with kCheckCells
    Halide::Func sampling_locations;  ///< (xy, s, m, q, b)
    Halide::Func attention_weights;   ///< (s, m, q, b)
    Halide::Expr num_samples, num_queries, num_keys;
};

struct MsdaHeadBackwardSamplesInputs : MsdaHeadSamples {
    Halide::Func value, grad_output;      ///< (word, m, k * key_step, b), (word, m, q, b): the numbers of a word's channels
    Halide::Expr key_step, max_position;  ///< see MsdaForwardInputs
    Halide::Expr num_lanes, rounds;       ///< num_lanes * rounds * words_per_lane are all words
    int words_per_lane;
};

struct MsdaHeadBackwardSamples {
    Halide::Var c{"c"}, word{"word"}, lane{"lane"}, s{"s"}, m{"m"}, q{"q"}, b{"b"};
    Halide::RDom words, rounds, lanes;

    Halide::Func found{"found"};          ///< (s, m, q, b): positions of the four corners, the highest bit where one is no cell
    Halide::Func positions{"positions"};  ///< the same as (c, s, m, q, b)
    Halide::Func gradient{"gradient"};    ///< (word, lane, m, q, b): grad_output's channels of a lane
    Halide::Func cell{"cell"};            ///< (word, c, lane, s, m, q, b): those of the cell of corner c
    Halide::Func partial{"partial"};      ///< (c, lane, s, m, q, b): grad_output * the cell of corner c, of a lane's words
    Halide::Func partials{"partials"};    ///< the same, for others to read
    Halide::Func dots{"dots"};            ///< (c, s, m, q, b): of all

    Halide::Expr grad_location[2], grad_weight;  ///< of (s, m, q, b)

    explicit MsdaHeadBackwardSamples(const MsdaHeadBackwardSamplesInputs &inputs);
};

struct MsdaHeadBackwardValueInputs : MsdaHeadSamples {
    Halide::Func grad_output;  ///< (d, m, q, b)
    Halide::Expr num_channels, max_key;
};

/// What a sample adds to.
struct MsdaHeadTaps {
    Halide::Var m{"m"}, b{"b"}, s{"s"}, q{"q"}, field{"field"};

    Halide::Func found{"found"};  ///< (s, m, q, b), CornerFields
    Halide::Func taps{"taps"};    ///< the same as (CornerField, s, m, q, b)

    explicit MsdaHeadTaps(const MsdaHeadBackwardValueInputs &inputs);
};

struct MsdaHeadBackwardValue : MsdaHeadTaps {
    Halide::Var d{"d"}, k{"k"}, step{"step"}, lane{"lane"};
    Halide::RDom samples;  ///< (step, lane, corner, s, q)

    Halide::Func gradient{"gradient"};  ///< (step, lane, m, q, b): of channel step * num_lanes + lane
    Halide::Func grad_value;            ///< (d, m, k, b), in float32

    /// So many neighbouring channels are added at once.
    MsdaHeadBackwardValue(const MsdaHeadBackwardValueInputs &inputs, int num_lanes, const Halide::Func &grad_value);
};

struct MsdaHeadBackwardValueInOrder : MsdaHeadTaps, SumsInOrder {
    /// samples: (corner, s, q)
    MsdaHeadBackwardValueInOrder(const MsdaHeadBackwardValueInputs &inputs, int cells, int shares);
};

}  // namespace deformkit
