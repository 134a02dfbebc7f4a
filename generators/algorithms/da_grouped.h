// Deformable aggregation on GPUs: the algorithms. Axes as in da_visible.h, p and n by themselves; numbers are those of a word's
// channels, d counts words. A sample that does not take part is found out with its tap: threads that share taps ask it once.
#pragma once

#include <Halide.h>

#include "generators/shared/sampling.h"
#include "generators/shared/sums_in_order.h"

namespace deformkit {

struct DaSamples {
    Halide::Func map_table;         ///< (s, n, LevelRow), with kCheckCells
    Halide::Func sample_locations;  ///< (xy, n, p, a, b)
    Halide::Func weights;           ///< (g, s, n, p, a, b)
    Halide::Expr num_keys, num_points, num_cameras, num_scales, num_anchors;
};

struct DaCells : DaSamples {
    Halide::Func feature_maps;            ///< (d, g, k * key_step, b)
    Halide::Expr key_step, max_position;  ///< see MsdaForwardInputs
};

struct DaGroupedForward {
    Halide::Var d{"d"}, g{"g"}, a{"a"}, b{"b"}, s{"s"}, n{"n"}, p{"p"}, k{"k"}, field{"field"};
    Halide::RDom samples, groups;  ///< samples: (s, n, p)

    Halide::Func found{"found"};        ///< (s, n, p, a, b), CornerFields
    Halide::Func taps{"taps"};          ///< the same as (CornerField, s, n, p, a, b)
    Halide::Func of_group{"of_group"};  ///< (d, g, k, a, b): of so many points
    Halide::Func sum{"sum"};            ///< (d, g, a, b)

    DaGroupedForward(const DaCells &inputs, int group_points);
};

struct DaGroupedBackwardSamples {
    Halide::Var c{"c"}, word{"word"}, lane{"lane"}, g{"g"}, a{"a"}, b{"b"}, s{"s"}, n{"n"}, p{"p"};
    Halide::RDom words, lanes;

    Halide::Func found{"found"};  ///< (s, n, p, a, b): positions of the four corners, the highest bit where one is no cell
    Halide::Func positions{"positions"};  ///< the same as (c, s, n, p, a, b)
    Halide::Func gradient{"gradient"};    ///< (word, lane, g, a, b): grad_output's channels of a lane
    Halide::Func cell{"cell"};            ///< (word, c, lane, g, s, n, p, a, b): those of the cell of corner c
    Halide::Func partial{"partial"};      ///< (c, lane, g, s, n, p, a, b): the product of both
    Halide::Func partials{"partials"};    ///< the same, for others to read
    Halide::Func dots{"dots"};            ///< (c, g, s, n, p, a, b): of all lanes

    Halide::Expr grad_weight, share[2];  ///< of (g, s, n, p, a, b): the location's gradient is the sum of the shares

    /// grad_output (d, g, a, b).
    DaGroupedBackwardSamples(const DaCells &inputs, const Halide::Func &grad_output, const Halide::Expr &num_lanes,
                             int words_per_lane);
};

struct DaGroupedBackwardValue {
    Halide::Var d{"d"}, g{"g"}, cell{"cell"}, b{"b"}, a{"a"}, s{"s"}, n{"n"}, p{"p"}, field{"field"}, step{"step"},
        lane{"lane"};
    Halide::RDom samples;  ///< (step, lane, corner, s, n, p, a)

    Halide::Func found{"found"};        ///< (s, n, p, a, b), CornerFields
    Halide::Func taps{"taps"};          ///< the same as (CornerField, s, n, p, a, b)
    Halide::Func gradient{"gradient"};  ///< (step, lane, g, a, b): of channel step * num_lanes + lane
    Halide::Func grad_maps;             ///< (d, g, cell, b), in float32

    /// grad_output (d, g, a, b), d a channel. So many neighbouring channels are added at once.
    DaGroupedBackwardValue(const DaSamples &inputs, const Halide::Func &grad_output, const Halide::Expr &num_channels,
                           int num_lanes, const Halide::Func &grad_maps);
};

struct DaGroupedBackwardValueInOrder : SumsInOrder {
    Halide::Var g{"g"}, b{"b"}, a{"a"}, s{"s"}, n{"n"}, p{"p"}, field{"field"};

    Halide::Func found{"found"};  ///< (s, n, p, a, b), CornerFields
    Halide::Func taps{"taps"};    ///< the same as (CornerField, s, n, p, a, b)

    /// grad_output (d, g, a, b). samples: (corner, s, n, p, a)
    DaGroupedBackwardValueInOrder(const DaSamples &inputs, const Halide::Func &grad_output, int cells, int shares);
};

}  // namespace deformkit
