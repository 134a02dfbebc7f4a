#include "generators/shared/sampling.h"

#include <functional>

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

namespace {

// No pair looks like that: its first cell would be the last of 2^31, and another behind it.
constexpr int kNoCells = -1;

Expr as_bits(Type type, const Expr &number) {
    return reinterpret(type, cast(UInt(type.bits()), number));
}

}  // namespace

TouchedCells touched_cells(const BilinearTap &tap, const Expr &first_key, const Expr &num_keys, const Expr &check_cells,
                           const Expr &scale) {
    const Type type = tap.ax.type();
    const Expr zero = make_zero(type), half = make_const(type, 0.5), one = make_const(type, 1);
    const auto scaled = [&](const Expr &number) { return scale.defined() ? number * scale : number; };
    // Where the map lies in the tensor, the two axes are independent of each other.
    struct Axis {
        Expr both, cell, weight[2], slope[2];
    };
    const auto along = [&](const Expr &first, const Expr &fraction, const Expr &on0, const Expr &on1) {
        const Expr both = on0 && on1, shared = half * select(on0, one - fraction, fraction);
        const Expr slope = half * select(on0, -one, one);
        return Axis{both,
                    max(first, 0),
                    {select(both, one - fraction, shared), select(both, fraction, shared)},
                    {select(both, -one, slope), select(both, one, slope)}};
    };
    const Axis x = along(tap.column, tap.ax, tap.has_column(0), tap.has_column(1));
    Axis y = along(tap.row, tap.ay, tap.has_row(0), tap.has_row(1));
    for (int j = 0; j < 2; j++) {
        y.weight[j] = scaled(y.weight[j]);
        y.slope[j] = scaled(y.slope[j]);
    }
    const Expr key = first_key + y.cell * tap.width + x.cell;

    // Elsewhere they share within each row first, then between the rows.
    Expr is_cell[4], wide[4];
    for (int c = 0; c < 4; c++) {
        const int j = c / 2, i = c % 2;
        wide[c] = cast<int64_t>(first_key) + cast<int64_t>(tap.row + j) * tap.width + tap.column + i;
        is_cell[c] = tap.inside && tap.has_row(j) && tap.has_column(i) && wide[c] >= 0 && wide[c] < num_keys;
    }
    const Expr has[2] = {is_cell[0] || is_cell[1], is_cell[2] || is_cell[3]};
    const auto shared = [&](const std::function<Expr(int, int)> &corner, int c) {
        const auto alone = [&](int c) { return select(is_cell[c], scaled(corner(c / 2, c % 2)), zero); };
        const auto in_row = [&](int c) {
            return select(is_cell[c] && is_cell[c ^ 1], alone(c), half * (alone(c) + alone(c ^ 1)));
        };
        return select(has[0] && has[1], in_row(c), half * (in_row(c) + in_row(c ^ 2)));
    };
    const auto weight = [&](int j, int i) { return tap.column_weight(i) * tap.row_weight(j); };
    const auto across = [&](int j, int i) { return (i == 0 ? -one : one) * tap.row_weight(j); };
    const auto down = [&](int j, int i) { return tap.column_weight(i) * (j == 0 ? -one : one); };

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
        cells.weight[c] = select(check_cells, shared(weight, c), x.weight[i] * y.weight[j]);
        cells.across[c] = select(check_cells, shared(across, c), x.slope[i] * y.weight[j]);
        cells.down[c] = select(check_cells, shared(down, c), x.weight[i] * y.slope[j]);
    }
    return cells;
}

Expr encode_pair(Type type, const Expr &position, const Expr &apart) {
    return as_bits(type, select(apart, position | Int(32).min(), position));
}

Expr decode_pair(const Expr &pair, const Expr &i, const Expr &step) {
    const Expr bits = decode_position(pair), first = bits & Int(32).max();
    return first + select(i == 1 && bits < 0, step, 0);
}

std::vector<Expr> tap_fields(const TouchedCells &cells, const Expr &step) {
    const Type type = cells.weight[0].type();
    const Expr first = encode_pair(type, cells.key[0] * step, cells.apart[0]);
    std::vector<Expr> fields = {select(cells.any, first, as_bits(type, kNoCells)),
                                encode_pair(type, cells.key[1] * step, cells.apart[1])};
    fields.insert(fields.end(), cells.weight, cells.weight + 4);
    return fields;
}

std::vector<Expr> cell_fields(const TouchedCells &cells, const Expr &step) {
    const Type type = cells.weight[0].type();
    std::vector<Expr> fields;
    for (int c = 0; c < 4; c++) {
        const Expr first = cells.key[c / 2] * step;
        fields.push_back(as_bits(type, c % 2 == 0 ? first : first + select(cells.apart[c / 2], step, 0)));
    }
    fields.insert(fields.end(), cells.weight, cells.weight + 4);
    fields[kCellWeight] = select(cells.any, fields[kCellWeight], make_const(type, -1));
    return fields;
}

Expr decode_position(const Expr &field) {
    return cast<int32_t>(reinterpret(UInt(field.type().bits()), field));
}

std::vector<Expr> corner_fields(const TouchedCells &cells, const Expr &step) {
    const Type type = cells.weight[0].type(), bits = UInt(type.bits());
    std::vector<Expr> fields;
    for (int c = 0; c < 4; c++) {
        const Expr first = cells.key[c / 2] * step;
        const Expr position = c % 2 == 0 ? first : first + select(cells.apart[c / 2], step, 0);
        fields.push_back(reinterpret(type, cast(bits, select(cells.any, position, kNoCells))));
    }
    fields.insert(fields.end(), cells.weight, cells.weight + 4);
    return fields;
}

Expr touches_cells(const Expr &first_pair) {
    return decode_position(first_pair) != kNoCells;
}

SampleGradients sample_gradients(const BilinearTap &tap, const Expr &weight, const Expr dots[4]) {
    const Type type = tap.ax.type();
    const Expr &at00 = dots[0], &at01 = dots[1], &at10 = dots[2], &at11 = dots[3], &ax = tap.ax, &ay = tap.ay;
    const Expr across = (at01 - at00) * (1 - ay) + (at11 - at10) * ay, down = (at10 - at00) * (1 - ax) + (at11 - at01) * ax;
    const Expr scale = select(tap.inside, weight, make_zero(type));
    return {(at00 * (1 - ax) + at01 * ax) * (1 - ay) + (at10 * (1 - ax) + at11 * ax) * ay,
            {scale * (cast(type, tap.width) * across), scale * (cast(type, tap.height) * down)}};
}

std::vector<Expr> elements(const FuncRef &ref) {
    if (ref.size() == 1) {
        return {Expr(ref)};
    }
    std::vector<Expr> all;
    for (size_t i = 0; i < ref.size(); i++) {
        all.push_back(ref[static_cast<int>(i)]);
    }
    return all;
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
