// Deformable aggregation, backward: the algorithm, in two passes that need nothing of each other.
//
// Axes as in da.h. With e = grad_output[b, a, :] and w = the weight of a sample's group:
//   samples:  the dot products of e with the four cells that a sample touches give the gradients of w and of the location
//   value:    each of those cells gains (corner weight) * w * e
//
// The runtime calls either for one camera or map and a part of the whole at a time. Neither is parallel in itself.
#pragma once

#include "generators/algorithms/da_visible.h"

namespace deformkit {

struct DaBackwardSamplesInputs {
    Halide::Func feature_maps;      ///< (d, g, k * key_step)
    Halide::Func map_table;         ///< (s, LevelRow): the maps of one camera
    Halide::Func sample_locations;  ///< (xy, p, v): on that camera
    Halide::Func weights;           ///< (g, s, p, v)
    Halide::Func grad_output;       ///< (d, g, v)
    Halide::Expr num_channels, num_groups, num_keys, num_points, num_scales;
    Halide::Expr key_step, max_position, check_cells;  ///< see DaForwardInputs
};

struct DaBackwardSamples {
    /// After CellField: weights of the sample's derivatives by x and y.
    enum Field { kAcross = kCellFields, kDown = kAcross + 4, kFields = kDown + 4 };

    Halide::Var d{"d"}, g{"g"}, v{"v"}, p{"p"}, s{"s"}, c{"c"}, i{"i"}, field{"field"}, xy{"xy"};
    Halide::RDom channels, samples, scales;  ///< samples: (i, s); scales: (g, s)

    DaVisible visible;
    Halide::Func taps{"taps"};          ///< (p, Field, s, v)
    Halide::Func dot{"dot"};            ///< (g, c, i, s, v): e * the cell of corner c
    Halide::Func grads{"grads"};        ///< (g, s, p, v), only of visible points: of w, and the group's share of the location's
    Halide::Func location{"location"};  ///< (p, v): of the location's x and y

    Halide::Expr grad_location, grad_weight;  ///< of (xy, p, v) and (g, s, p, v), in the type of arithmetic

    explicit DaBackwardSamples(const DaBackwardSamplesInputs &inputs);
};

struct DaBackwardValueInputs {
    Halide::Func map_table;         ///< (0, LevelRow): of the map, first key counted from the slab's first cell
    Halide::Func sample_locations;  ///< (xy, p, v): on its camera
    Halide::Func weights;           ///< (g, p, v)
    Halide::Func grad_output;       ///< (d, g, v)
    Halide::Func slab;              ///< to be defined: (d, g, cell), in the type of arithmetic; what is there already counts
    Halide::Expr num_cells, num_points, num_anchors;
    Halide::Expr check_cells;  ///< the map reaches outside the slab: every cell has to be checked
};

struct DaBackwardValue {
    Halide::Var d{"d"}, g{"g"}, v{"v"}, p{"p"}, cell{"cell"}, field{"field"};
    Halide::RDom corners;  ///< corners: (c, i, v)

    DaVisible visible;
    Halide::Func taps{"taps"};  ///< (p, CellField, v)
    Halide::Func slab;

    explicit DaBackwardValue(const DaBackwardValueInputs &inputs);
};

}  // namespace deformkit
