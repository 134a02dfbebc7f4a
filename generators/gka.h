// Geometric kernel attention: the algorithms of its passes.
//
//   output[b, q, m, d] = sum over samples s of attention_weights[b, q, m, s] * value[b, cell of sample s, m, d]
//
// Axes as in msda_forward.h. A sample is one cell: its location, in cells, truncated toward zero and clamped to the map. With
// g = grad_output[b, q, m, :]:
//   samples:  the dot product of g with the sample's cell is the gradient of its weight
//   value:    the cell gains (the sample's weight) * g
#pragma once

#include <Halide.h>

#include "sampling.h"

namespace deformkit {

/// How to read a location's 32 bits.
enum LocationKind {
    kFloatLocation = 0,        ///< float32; NaN and infinities are nowhere
    kIntLocation = 1,          ///< int32
    kMarkedIntLocation = 2,    ///< int32; the smallest is nowhere
};

/// The cell of one sample.
struct CellTap {
    Halide::Expr counts;  ///< the location is somewhere, and the cell is one of the tensor
    Halide::Expr key;     ///< in [0, num_keys), whatever the location

    /// `column` and `row` are `map(row of the table)`'s; with `careful` it may be empty or reach outside [0, num_keys).
    CellTap(const Halide::Expr &x_bits, const Halide::Expr &y_bits, const Halide::Expr &kind, const Halide::Expr &width,
            const Halide::Expr &height, const Halide::Expr &first_key, const Halide::Expr &num_keys, const Halide::Expr &careful);
};

struct GkaInputs {
    Halide::Func value;               ///< (d, m, k * key_step, b)
    Halide::Func level_table;         ///< (f, LevelRow)
    Halide::Func sampling_locations;  ///< (xy, f, q, b), as bits
    Halide::Func attention_weights;   ///< (f, q, b)
    Halide::Func grad_output;         ///< (d, m, q, b), of `samples` only
    Halide::Expr num_channels, num_heads, num_keys, num_samples, location_kind;
    Halide::Expr key_step, max_position;  ///< see MsdaForwardInputs
    Halide::Expr careful;
};

struct GkaForward {
    enum Field { kPosition = 0, kWeight = 1, kFields = 2 };

    Halide::Var d{"d"}, m{"m"}, q{"q"}, b{"b"}, f{"f"}, field{"field"};
    Halide::RDom query_samples, samples, some_samples;

    Halide::Func taps{"taps"};    ///< (f, Field, q, b); the position as bits, -1 where the sample does not count
    Halide::Func lowest{"lowest"};  ///< (q, b): the smallest position, -1 where some sample does not count
    /// (d, m, q, b). Only where some sample does not count is each asked: a cell that is NaN does not become harmless by a weight
    /// of zero.
    Halide::Func sum{"sum"};

    explicit GkaForward(const GkaInputs &inputs);
};

struct GkaBackwardSamples {
    Halide::Var f{"f"}, s{"s"}, m{"m"}, q{"q"}, b{"b"};
    Halide::RDom channels, head_samples;

    Halide::Func positions{"positions"};  ///< (f, q, b)
    Halide::Func dot{"dot"};              ///< (s, m, q, b)
    Halide::Func dots{"dots"};            ///< (f, q, b): the same by f

    Halide::Expr grad_weight;  ///< of (f, q, b), in the type of arithmetic

    explicit GkaBackwardSamples(const GkaInputs &inputs);
};

/// The samples of one head on one level.
struct GkaBackwardValueInputs {
    Halide::Func level_table;         ///< (0, LevelRow): first key counted from the slab's first cell
    Halide::Func sampling_locations;  ///< (xy, p, q), as bits
    Halide::Func attention_weights;   ///< (p, q)
    Halide::Func grad_output;         ///< (d, q)
    Halide::Func slab;                ///< to be defined: (d, cell), in the type of arithmetic
    Halide::Expr num_cells, num_points, num_queries, location_kind, careful;
    Halide::Expr clear;  ///< start from zero, rather than add to what is there
};

struct GkaBackwardValue {
    Halide::Var d{"d"}, cell{"cell"}, p{"p"}, q{"q"};
    Halide::RDom once, samples;

    Halide::Func cells{"cells"};  ///< (p, q): -1 where the sample does not count
    Halide::Func slab;

    explicit GkaBackwardValue(const GkaBackwardValueInputs &inputs);
};

}  // namespace deformkit
