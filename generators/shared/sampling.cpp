#include "generators/shared/sampling.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;
using Halide::Internal::make_zero;

BilinearTap::BilinearTap(const Expr &u, const Expr &v, const Expr &width, const Expr &height) : width(width), height(height) {
    const Type type = u.type();
    const Expr w = cast(type, width), h = cast(type, height);
    const Expr half = make_const(type, 0.5), zero = make_zero(type), minus_one = make_const(type, -1);
    const Expr x = strict_float(u * w - half), y = strict_float(v * h - half);
    inside = strict_float(x > minus_one && x < w && y > minus_one && y < h);

    // A sample that is outside may be NaN or huge: give the conversions below a number that they are defined for.
    // Truncation is floor here but for (-1, 0), and unlike floor it is one instruction at every vector width.
    const auto split = [&](const Expr &position, Expr &cell, Expr &fraction) {
        const Expr safe = select(inside, position, zero);
        cell = select(strict_float(safe < zero), -1, cast<int32_t>(safe));
        fraction = strict_float(safe - cast(type, cell));
    };
    split(x, column, ax);
    split(y, row, ay);
}

Expr BilinearTap::has_column(int i) const {
    return i == 0 ? column >= 0 : column + 1 < width;
}

Expr BilinearTap::has_row(int j) const {
    return j == 0 ? row >= 0 : row + 1 < height;
}

Expr BilinearTap::column_weight(int i) const {
    return select(has_column(i), i == 0 ? 1 - ax : ax, make_zero(ax.type()));
}

Expr BilinearTap::row_weight(int j) const {
    return select(has_row(j), j == 0 ? 1 - ay : ay, make_zero(ay.type()));
}

CellPair cell_pair(const BilinearTap &tap, int j, const Expr &first_key, const Expr &num_keys) {
    const Expr wanted = first_key + (tap.row + j) * tap.width + tap.column;
    CellPair pair;
    pair.key = max(min(wanted, num_keys - 2), 0);
    const Expr in_place = pair.key == wanted;
    for (int i = 0; i < 2; i++) {
        pair.weight[i] = select(in_place, tap.column_weight(i), tap.column_weight(1 - i));
    }
    return pair;
}

CheckedPair checked_pair(const BilinearTap &tap, int j, const Expr &first_key, const Expr &num_keys, const Expr &careful) {
    const Expr wanted = first_key + (tap.row + j) * tap.width + tap.column;
    const Expr wide = cast<int64_t>(first_key) + cast<int64_t>(tap.row + j) * tap.width + tap.column;
    const Expr clamped = cast<int32_t>(max(min(wide, cast<int64_t>(num_keys - 2)), cast<int64_t>(0)));
    CheckedPair pair;
    pair.key = select(careful, clamped, max(min(wanted, num_keys - 2), 0));
    const Expr far = cast<int32_t>(clamp(wide - clamped, cast<int64_t>(-2), cast<int64_t>(2)));
    pair.shift = select(careful, far, wanted - pair.key);
    return pair;
}

Expr CheckedPair::half(int i, const Expr corner[2]) const {
    const Expr zero = make_zero(corner[0].type());
    return select(shift == 0, corner[i], select(shift == (i == 0 ? -1 : 1), corner[1 - i], zero));
}

Expr CheckedPair::corner(int i, const Expr half[2]) const {
    const Expr zero = make_zero(half[0].type());
    return select(shift == 0, half[i], select(shift == (i == 0 ? 1 : -1), half[1 - i], zero));
}

SharedCorners shared_corners(const BilinearTap &tap, const Expr &first_key, const Expr &careful, const Expr &spare_key) {
    const Type type = tap.ax.type();
    const Expr half = make_const(type, 0.5), one = make_const(type, 1);
    struct Axis {
        Expr cell[2], weight[2], slope[2];
    };
    const auto along = [&](const Expr &first, const Expr &extent, const Expr &fraction, const Expr &on0, const Expr &on1) {
        const Expr shared = half * select(on0, one - fraction, fraction);
        return Axis{{max(first, 0), min(first + 1, extent - 1)},
                    {select(on0 && on1, one - fraction, shared), select(on0 && on1, fraction, shared)},
                    {select(on1, select(on0, -one, half), -half), select(on0, select(on1, one, -half), half)}};
    };
    const Axis x = along(tap.column, tap.width, tap.ax, tap.has_column(0), tap.has_column(1));
    const Axis y = along(tap.row, tap.height, tap.ay, tap.has_row(0), tap.has_row(1));

    SharedCorners corners;
    for (int c = 0; c < 4; c++) {
        const int j = c / 2, i = c % 2;
        const Expr wide = cast<int64_t>(first_key) + cast<int64_t>(y.cell[j]) * tap.width + x.cell[i];
        const Expr is_cell = wide >= 0 && wide < spare_key && tap.width > 0;
        corners.key[c] =
            select(careful, select(is_cell, cast<int32_t>(wide), spare_key), first_key + y.cell[j] * tap.width + x.cell[i]);
        corners.weight[c] = x.weight[i] * y.weight[j];
        corners.across[c] = x.slope[i] * y.weight[j];
        corners.down[c] = x.weight[i] * y.slope[j];
    }
    return corners;
}

Expr ordered_add(const Expr &a, const Expr &b) {
    return Internal::Call::make(a.type(), Internal::Call::strict_add, {a, b}, Internal::Call::PureIntrinsic);
}

Expr magnitude_bits(const Expr &value) {
    const Type bits = UInt(value.type().bits());
    return reinterpret(bits, value) << make_const(bits, 1);
}

Expr non_finite_bits(Type type) {
    return type.bits() == 64 ? make_const(UInt(64), UINT64_C(0xffe0000000000000)) : make_const(UInt(32), 0xff000000u);
}

Expr is_nan_bits(const Expr &value) {
    // Without its sign bit, a NaN is the only number above infinity.
    return magnitude_bits(value) > non_finite_bits(value.type());
}

}  // namespace deformkit
