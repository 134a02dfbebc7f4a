// Deformable aggregation, forward: the algorithm.
//
//   output[b, a, g, d] = sum over points p, cameras n, scales s of weights[b, a, p, n, s, g] * (bilinear sample of channel g,
//   d)
//
// An anchor with many points may come as several that follow each other, `num_parts` of them, each with a part of the points:
// axis v counts these.
#pragma once

#include "generators/algorithms/da_visible.h"

namespace deformkit {

struct DaForwardInputs {
    Halide::Func feature_maps;      ///< (d, g, k * key_step, b)
    Halide::Func map_table;         ///< (n * S + s, LevelRow)
    Halide::Func sample_locations;  ///< (xy, p * N + n, v, b)
    Halide::Func weights;           ///< (g, s, p * N + n, v, b)
    Halide::Expr num_keys, num_points, num_cameras, num_scales, num_parts;
    Halide::Expr key_step, max_position;  ///< see MsdaForwardInputs
    Halide::Expr check_cells;             ///< some map reaches outside `feature_maps`: every cell has to be checked
};

struct DaForward {
    Halide::Var d{"d"}, g{"g"}, v{"v"}, a{"a"}, b{"b"}, p{"p"}, n{"n"}, s{"s"}, field{"field"};
    Halide::RDom samples, parts;  ///< samples: (i, s, n)

    DaVisible visible;
    Halide::Func taps{"taps"};    ///< (p, CellField, s, n, v, b)
    Halide::Func sum{"sum"};      ///< (d, g, v, b)
    Halide::Func total{"total"};  ///< (d, g, a, b): of an anchor's parts

    explicit DaForward(const DaForwardInputs &inputs);
};

}  // namespace deformkit
