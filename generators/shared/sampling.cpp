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

SharedCorners shared_corners(const BilinearTap &tap, const Expr &first_key, const Expr &check_cells, const Expr &spare_key) {
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
            select(check_cells, select(is_cell, cast<int32_t>(wide), spare_key), first_key + y.cell[j] * tap.width + x.cell[i]);
        corners.weight[c] = x.weight[i] * y.weight[j];
        corners.across[c] = x.slope[i] * y.weight[j];
        corners.down[c] = x.weight[i] * y.slope[j];
    }
    return corners;
}

namespace {

// No pair looks like that: its first cell would be the last of 2^31, and another behind it.
constexpr int kNoCells = -1;

}  // namespace

TouchedCells touched_cells(const BilinearTap &tap, const Expr &first_key, const Expr &num_keys, const Expr &check_cells,
                           const Expr &scale) {
    const Type type = tap.ax.type();
    const Expr zero = make_zero(type), half = make_const(type, 0.5), one = make_const(type, 1);
    // Where the map lies in the tensor, the two axes are independent of each other.
    struct Axis {
        Expr both, cell, weight[2];
    };
    const auto along = [&](const Expr &first, const Expr &fraction, const Expr &on0, const Expr &on1, const Expr &scale) {
        const Expr both = on0 && on1, shared = half * select(on0, one - fraction, fraction);
        const Expr weight[2] = {select(both, one - fraction, shared), select(both, fraction, shared)};
        const auto scaled = [&](const Expr &weight) { return scale.defined() ? weight * scale : weight; };
        return Axis{both, max(first, 0), {scaled(weight[0]), scaled(weight[1])}};
    };
    const Axis x = along(tap.column, tap.ax, tap.has_column(0), tap.has_column(1), Expr());
    const Axis y = along(tap.row, tap.ay, tap.has_row(0), tap.has_row(1), scale);
    const Expr key = first_key + y.cell * tap.width + x.cell;

    // Elsewhere they share within each row first, then between the rows.
    Expr is_cell[4], wide[4], weight[4];
    for (int c = 0; c < 4; c++) {
        const int j = c / 2, i = c % 2;
        wide[c] = cast<int64_t>(first_key) + cast<int64_t>(tap.row + j) * tap.width + tap.column + i;
        is_cell[c] = tap.inside && tap.has_row(j) && tap.has_column(i) && wide[c] >= 0 && wide[c] < num_keys;
        weight[c] = select(is_cell[c], tap.column_weight(i) * tap.row_weight(j) * scale, zero);
    }
    const Expr has[2] = {is_cell[0] || is_cell[1], is_cell[2] || is_cell[3]};
    const auto shared = [&](int c) {
        const auto in_row = [&](int c) {
            return select(is_cell[c] && is_cell[c ^ 1], weight[c], half * (weight[c] + weight[c ^ 1]));
        };
        return select(has[0] && has[1], in_row(c), half * (in_row(c) + in_row(c ^ 2)));
    };

    TouchedCells cells;
    cells.any = select(check_cells, has[0] || has[1], tap.inside);
    for (int j = 0; j < 2; j++) {
        const auto of_row = [&](int j) { return select(is_cell[2 * j], wide[2 * j], wide[2 * j + 1]); };
        const auto full = [&](int j) { return is_cell[2 * j] && is_cell[2 * j + 1]; };
        const Expr stand_in = select(has[j], of_row(j), select(has[1 - j], of_row(1 - j), 0));
        cells.key[j] = select(check_cells, cast<int32_t>(stand_in), j == 0 ? key : key + select(y.both, tap.width, 0));
        cells.apart[j] = select(check_cells, select(has[j], full(j), full(1 - j)), x.both);
    }
    for (int c = 0; c < 4; c++) {
        const int j = c / 2, i = c % 2;
        cells.is_cell[c] = select(check_cells, is_cell[c], tap.inside && tap.has_row(j) && tap.has_column(i));
        cells.weight[c] = select(check_cells, shared(c), x.weight[i] * y.weight[j]);
    }
    return cells;
}

Expr encode_pair(Type type, const Expr &position, const Expr &apart) {
    const Type bits = UInt(type.bits());
    return reinterpret(type, cast(bits, select(apart, position | Int(32).min(), position)));
}

Expr decode_pair(const Expr &pair, const Expr &i, const Expr &step) {
    const Expr bits = cast<int32_t>(reinterpret(UInt(pair.type().bits()), pair)), first = bits & Int(32).max();
    return first + select(i == 1 && bits < 0, step, 0);
}

std::vector<Expr> tap_fields(const TouchedCells &cells, const Expr &step) {
    const Type type = cells.weight[0].type();
    std::vector<Expr> fields;
    for (int j = 0; j < 2; j++) {
        fields.push_back(encode_pair(type, cells.key[j] * step, cells.apart[j]));
    }
    fields[kPair] = select(cells.any, fields[kPair], reinterpret(type, make_const(UInt(type.bits()), kNoCells)));
    fields.insert(fields.end(), cells.weight, cells.weight + 4);
    return fields;
}

Expr touches_cells(const Expr &first_pair) {
    return cast<int32_t>(reinterpret(UInt(first_pair.type().bits()), first_pair)) != kNoCells;
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
