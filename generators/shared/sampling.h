// Bilinear taps, shared by every operator, pass, type and target.
//
// The formula is that of grid_sample with align_corners=False: a location (u, v), normalised to [0, 1], falls on
// x = u * W - 0.5, y = v * H - 0.5 in cells, and blends the four cells around it; a corner outside the map counts as zero.
#pragma once

#include <Halide.h>

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

/// One row of two neighbouring cells, `key` and `key + 1`, both inside the tensor whatever the location.
struct CellPair {
    Halide::Expr key;
    Halide::Expr weight[2];
};

/// The pair that holds corners (row + j, column) and (row + j, column + 1). Where clamping to the tensor moved the pair by one
/// cell, the corner that remains has moved to the other half; weights of corners off the map are zero in any case.
CellPair cell_pair(const BilinearTap &tap, int j, const Halide::Expr &first_key, const Halide::Expr &num_keys);

/// The pair of a level that may reach outside the tensor: cell_pair for passes that have no other check of keys.
/// Corner i lies in half i + shift, and is no cell of the tensor where that is neither half.
struct CheckedPair {
    Halide::Expr key, shift;

    /// What half i takes of two numbers, one for each corner; and what corner i takes of two numbers, one for each half. Zero
    /// where there is none.
    Halide::Expr half(int i, const Halide::Expr corner[2]) const;
    Halide::Expr corner(int i, const Halide::Expr half[2]) const;
};

/// With `careful`, keys are computed in 64 bits: any size and first key of the level will do.
CheckedPair checked_pair(const BilinearTap &tap, int j, const Halide::Expr &first_key, const Halide::Expr &num_keys,
                         const Halide::Expr &careful);

/// The four corners of a sample that is inside, c = 2 * j + i for (row + j, column + i), each in a cell of the map: a corner
/// off the map stands on its neighbour on the map, and the two share what that one counts for. So NaN and infinities in cells
/// reach what they should and nothing else, without a second look at any cell.
struct SharedCorners {
    Halide::Expr key[4];
    Halide::Expr weight[4];           ///< of the bilinear sample
    Halide::Expr across[4], down[4];  ///< of its derivatives by x and y, in cells
};

/// With `careful` the map may be empty or reach outside the tensor, whatever its size and first key: corners that are no cells
/// get the key `spare_key`, of a cell of zeros that the caller keeps for them.
SharedCorners shared_corners(const BilinearTap &tap, const Halide::Expr &first_key, const Halide::Expr &careful,
                             const Halide::Expr &spare_key);

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
