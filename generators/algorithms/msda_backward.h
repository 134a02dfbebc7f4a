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

}  // namespace deformkit
