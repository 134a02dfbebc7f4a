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

#include "generators/shared/sampling.h"

namespace deformkit {

/// How to read a location's 32 bits.
enum LocationKind {
    kFloatLocation = 0,      ///< float32; NaN and infinities are nowhere
    kIntLocation = 1,        ///< int32
    kMarkedIntLocation = 2,  ///< int32; the smallest is nowhere
};

/// The cell of one sample.
struct CellTap {
    Halide::Expr counts;  ///< the location is somewhere, and the cell is one of the tensor
    Halide::Expr key;     ///< in [0, num_keys), whatever the location

    /// With `careful` the map may be empty or reach outside [0, num_keys), whatever its size and first key.
    CellTap(const Halide::Expr &x_bits, const Halide::Expr &y_bits, const Halide::Expr &kind, const Halide::Expr &width,
            const Halide::Expr &height, const Halide::Expr &first_key, const Halide::Expr &num_keys,
            const Halide::Expr &careful);
};

/// One head of one batch item.
struct GkaInputs {
    Halide::Func value;               ///< (d, k * key_step)
    Halide::Func level_table;         ///< (s, LevelRow)
    Halide::Func sampling_locations;  ///< (xy, s, q), as bits
    Halide::Func attention_weights;   ///< (s, q)
    Halide::Func grad_output;         ///< (d, q); backward only
    Halide::Expr num_channels, num_keys, num_samples, location_kind;
    Halide::Expr key_step, max_position;  ///< see MsdaForwardInputs
    Halide::Expr careful;                 ///< some level is empty or reaches outside `value`
};

struct GkaForward {
    enum Field { kPosition = 0, kWeight = 1, kFields = 2 };

    Halide::Var d{"d"}, q{"q"}, s{"s"}, field{"field"};
    Halide::RDom all_samples, samples, some_samples;

    Halide::Func taps{"taps"};      ///< (s, Field, q); the position as bits, -1 where the sample does not count
    Halide::Func lowest{"lowest"};  ///< (q): the smallest position: -1 where some sample does not count
    /// (d, q). Only where some sample does not count is each asked: a cell that is NaN does not become harmless by a weight of
    /// zero.
    Halide::Func sum{"sum"};

    explicit GkaForward(const GkaInputs &inputs);
};

struct GkaBackwardSamples {
    Halide::Var s{"s"}, q{"q"};
    Halide::RDom channels;

    Halide::Func positions{"positions"};  ///< (s, q)
    Halide::Func dot{"dot"};              ///< (s, q)

    Halide::Expr grad_weight;  ///< of (s, q), in the type of arithmetic

    explicit GkaBackwardSamples(const GkaInputs &inputs);
};

/// Samples of one head: of all levels or of one.
struct GkaBackwardValueInputs {
    Halide::Func level_table;         ///< (s, LevelRow): first keys counted from the slab's first cell
    Halide::Func sampling_locations;  ///< (xy, s, q), as bits
    Halide::Func attention_weights;   ///< (s, q)
    Halide::Func grad_output;         ///< (d, q)
    Halide::Func slab;                ///< to be defined: (d, cell), in the type of arithmetic; what is there already counts
    Halide::Expr num_cells, num_samples, num_queries, location_kind, careful;
};

struct GkaBackwardValue {
    Halide::Var d{"d"}, cell{"cell"}, s{"s"}, q{"q"};
    Halide::RDom samples;

    Halide::Func cells{"cells"};  ///< (s, q): -1 where the sample does not count
    Halide::Func slab;

    explicit GkaBackwardValue(const GkaBackwardValueInputs &inputs);
};

}  // namespace deformkit
