// Bilinear taps, shared by every operator, pass, type and target.
//
// The formula is that of grid_sample with align_corners=False: a location (u, v), normalised to [0, 1], falls on
// x = u * W - 0.5, y = v * H - 0.5 in cells, and blends the four cells around it; a corner outside the map counts as zero.
#pragma once

#include <Halide.h>

#include <vector>

#include "generators/shared/contract.h"

namespace deformkit {

/// The type that arithmetic is done in: float32 for 16 and 32 bit storage, float64 for float64.
inline Halide::Type compute_type(Halide::Type storage) {
    return storage.bits() == 64 ? Halide::Float(64) : Halide::Float(32);
}

/// A location on one map. Strict floating point: NaN and infinite locations must compare as the standard says.
struct BilinearTap {
    Halide::Expr inside;       ///< the sample contributes: -1 < x < W and -1 < y < H
    Halide::Expr column, row;  ///< floor(x), floor(y) as int32; 0 where not inside
    Halide::Expr ax, ay;       ///< fractions of the way to the next column and row
    Halide::Expr width, height;

    BilinearTap(const Halide::Expr &u, const Halide::Expr &v, const Halide::Expr &width, const Halide::Expr &height);

    /// Whether corner (row + j, column + i) lies on the map.
    Halide::Expr has_column(int i) const;
    Halide::Expr has_row(int j) const;
    /// Its weight along one axis, zero when it is off the map.
    Halide::Expr column_weight(int i) const;
    Halide::Expr row_weight(int j) const;
};

/// The cells that a sample touches. A corner that is no cell stands on a neighbour that is one, and the two share what that one
/// counts for: so NaN and infinities in cells reach what they should and nothing else, without a second look at any cell.
struct TouchedCells {
    Halide::Expr any;                 ///< where there is none, keys are those of some cell, and weights mean nothing
    Halide::Expr is_cell[4];          ///< corner c = 2 * j + i, (row + j, column + i)
    Halide::Expr key[2];              ///< of corner 2 * j, in the tensor whatever the location
    Halide::Expr apart[2];            ///< corner 2 * j + 1 has the next key, otherwise the same
    Halide::Expr weight[4];           ///< of the bilinear sample
    Halide::Expr across[4], down[4];  ///< of its derivatives by x and y, in cells
};

/// With `check_cells` the map may reach outside the tensor, whatever its size and first key. `scale` multiplies all weights.
TouchedCells touched_cells(const BilinearTap &tap, const Halide::Expr &first_key, const Halide::Expr &num_keys,
                           const Halide::Expr &check_cells, const Halide::Expr &scale = {});

/// The two cells of a row, as bits of `type`: where the first lies, and whether the second lies a step further on.
Halide::Expr encode_pair(Halide::Type type, const Halide::Expr &position, const Halide::Expr &apart);
/// Where cell i of the two lies.
Halide::Expr decode_pair(const Halide::Expr &pair, const Halide::Expr &i, const Halide::Expr &step);

/// A sample as the sums of MSDA read it, one stream of six numbers: the pairs of its two rows, cells being `step` apart, and the
/// weights of its four cells.
enum TapField { kPair = 0, kWeight = 2, kTapFields = 6 };
std::vector<Halide::Expr> tap_fields(const TouchedCells &cells, const Halide::Expr &step);
/// Whether there are any cells, by the first pair. Samples without are left out: their cells are not theirs.
Halide::Expr touches_cells(const Halide::Expr &first_pair);

/// The same with four positions, as bits: for corners off the map those of the cells that they stand on. The first weight is
/// negative where there are no cells.
enum CellField { kPosition = 0, kCellWeight = 4, kCellFields = 8 };
std::vector<Halide::Expr> cell_fields(const TouchedCells &cells, const Halide::Expr &step);
Halide::Expr decode_position(const Halide::Expr &field);

/// The same for GPUs, with positions of which the first says that there are no cells: weights of any sign tell nothing.
enum CornerField { kCornerPosition = 0, kCornerWeight = 4, kCornerFields = 8 };
std::vector<Halide::Expr> corner_fields(const TouchedCells &cells, const Halide::Expr &step);

/// Of a sample's weight and location, from what grad_output gives with each corner's cell: zero where a corner is no cell.
struct SampleGradients {
    Halide::Expr weight, location[2];
};
SampleGradients sample_gradients(const BilinearTap &tap, const Halide::Expr &weight, const Halide::Expr dots[4]);

/// What a Func of one or several numbers has there.
std::vector<Halide::Expr> elements(const Halide::FuncRef &ref);

/// a + b, which the compiler must not reorder with the sums inside a and b. Keeps a long accumulation one addition deep per
/// term: reassociated, the chain of four dependent multiply-adds per sample is what a sum takes.
Halide::Expr ordered_add(const Halide::Expr &a, const Halide::Expr &b);

/// The bits of `value` without its sign, as an unsigned integer: in the order of magnitudes. NaN and infinity are what lies
/// at or above non_finite_bits.
Halide::Expr magnitude_bits(const Halide::Expr &value);
Halide::Expr non_finite_bits(Halide::Type type);

/// True where any bit pattern of `value` is a NaN. Decided on integers: the compiler may assume that sums are never NaN.
Halide::Expr is_nan_bits(const Halide::Expr &value);

}  // namespace deformkit
