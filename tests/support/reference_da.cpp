#include "tests/support/reference_da.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace deformkit::testing {

namespace {

__extension__ typedef __int128 int128;  // sums of what index tensors may hold

struct Axis {
    int64_t cell;
    double fraction, error;

    // Rounded: the extent and its product, the subtraction of 0.5, the subtraction of the cell.
    Axis(double normalised, int64_t extent)
        : cell(static_cast<int64_t>(std::floor(normalised * static_cast<double>(extent) - 0.5))),
          fraction(normalised * static_cast<double>(extent) - 0.5 - static_cast<double>(cell)),
          error(3 * std::fabs(normalised * static_cast<double>(extent)) + 2) {}
    double weight(int corner) const { return corner == 0 ? 1 - fraction : fraction; }
    /// A map of 2^20 cells a side: arithmetic in float32 hardly tells its cells apart.
    bool lost(double rounding) const { return error * rounding > 1.0 / 16; }
};

constexpr double kAnything = std::numeric_limits<double>::infinity();  // as a tolerance

/// Calls visit(anchor row b * A + a, point and camera f = p * N + n, scale s, x, y, key of each corner or -1).
template <typename Visit>
void for_each_sample(const DaReferenceInputs &in, const Visit &visit) {
    for (int64_t row = 0; row < in.B * in.A; row++) {
        for (int64_t f = 0; f < in.P * in.N; f++) {
            const double u = in.locations[2 * (row * in.P * in.N + f)], v = in.locations[2 * (row * in.P * in.N + f) + 1];
            if (!(u > 0 && u < 1 && v > 0 && v < 1)) {
                continue;
            }
            for (int64_t s = 0; s < in.S; s++) {
                const int64_t map = f % in.N * in.S + s, height = in.shapes[2 * map], width = in.shapes[2 * map + 1];
                if (height <= 0 || width <= 0) {
                    continue;
                }
                const Axis x(u, width), y(v, height);
                int64_t keys[4];
                for (int c = 0; c < 4; c++) {
                    const int64_t column = x.cell + c % 2, r = y.cell + c / 2;
                    const int128 key = static_cast<int128>(in.starts[map]) + static_cast<int128>(r) * width + column;
                    const bool counts = column >= 0 && column < width && r >= 0 && r < height && key >= 0 && key < in.K;
                    keys[c] = counts ? static_cast<int64_t>(key) : -1;
                }
                visit(row, f, s, x, y, keys);
            }
        }
    }
}

double weight_of(const Axis &x, const Axis &y, int c) {
    return x.weight(c % 2) * y.weight(c / 2);
}

}  // namespace

Expected da_forward_reference(const DaReferenceInputs &in, double rounding) {
    const double terms = 4.0 * static_cast<double>(in.P * in.N * in.S) + 12;
    Expected output(in.B * in.A * in.C);
    for_each_sample(in, [&](int64_t row, int64_t f, int64_t s, const Axis &x, const Axis &y, const int64_t *keys) {
        const double *maps = in.feature_maps.data() + row / in.A * in.K * in.C;
        const double *weights = in.weights.data() + ((row * in.P * in.N + f) * in.S + s) * in.G;
        if (x.lost(rounding) || y.lost(rounding)) {
            std::fill_n(&output.tolerances[row * in.C], in.C, kAnything);
            return;
        }
        for (int64_t c = 0; c < in.C; c++) {
            const double w = weights[c / (in.C / in.G)];
            double sample = 0;
            for (int k = 0; k < 4; k++) {
                if (keys[k] >= 0) {
                    const double cell = maps[keys[k] * in.C + c];
                    sample += weight_of(x, y, k) * cell;
                    output.tolerances[row * in.C + c] +=
                        rounding * std::fabs(w * cell) * (terms * weight_of(x, y, k) + x.error + y.error);
                }
            }
            output.values[row * in.C + c] += w * sample;
        }
    });
    return output;
}

DaGradients da_backward_reference(const DaReferenceInputs &in, double rounding) {
    DaGradients g;
    g.feature_maps = Expected(in.B * in.K * in.C);
    g.locations = Expected(in.B * in.A * in.P * in.N * 2);
    g.locations.any_nonfinite = true;
    g.weights = Expected(in.B * in.A * in.P * in.N * in.S * in.G);
    g.weights.any_nonfinite = true;
    const double samples = static_cast<double>(in.A * in.P * in.N * in.S);
    const double channels = static_cast<double>(in.C) * 4 + 16;
    for_each_sample(in, [&](int64_t row, int64_t f, int64_t s, const Axis &x, const Axis &y, const int64_t *keys) {
        const int64_t at = row * in.P * in.N + f, map = f % in.N * in.S + s, first = row / in.A * in.K * in.C;
        const double width = static_cast<double>(in.shapes[2 * map + 1]), height = static_cast<double>(in.shapes[2 * map]);
        const double sums = channels + 4 * static_cast<double>(in.S);
        if (x.lost(rounding) || y.lost(rounding)) {
            std::fill_n(&g.feature_maps.tolerances[first], in.K * in.C, kAnything);
            std::fill_n(&g.weights.tolerances[(at * in.S + s) * in.G], in.G, kAnything);
            std::fill_n(&g.locations.tolerances[2 * at], 2, kAnything);
            return;
        }
        for (int64_t group = 0; group < in.G; group++) {
            const int64_t to = (at * in.S + s) * in.G + group;
            const double w = in.weights[to];
            double across = 0, down = 0;  // sums over the group's channels
            for (int64_t c = group * in.C / in.G; c < (group + 1) * in.C / in.G; c++) {
                const double e = in.grad_output[row * in.C + c];
                for (int k = 0; k < 4; k++) {
                    if (keys[k] < 0) {
                        continue;
                    }
                    const int64_t cell = first + keys[k] * in.C + c;
                    const double v = in.feature_maps[cell], corner = weight_of(x, y, k);
                    const double dx = (k % 2 ? 1 : -1) * y.weight(k / 2), dy = (k / 2 ? 1 : -1) * x.weight(k % 2);
                    g.feature_maps.values[cell] += corner * w * e;
                    g.feature_maps.tolerances[cell] +=
                        rounding * std::fabs(w * e) * ((samples + 12) * corner + x.error + y.error);
                    g.weights.values[to] += e * corner * v;
                    g.weights.tolerances[to] += rounding * std::fabs(e * v) * (channels * corner + x.error + y.error);
                    across += e * dx * v;
                    down += e * dy * v;
                    g.locations.tolerances[2 * at] +=
                        rounding * std::fabs(width * w * e * v) * (sums * std::fabs(dx) + y.error);
                    g.locations.tolerances[2 * at + 1] +=
                        rounding * std::fabs(height * w * e * v) * (sums * std::fabs(dy) + x.error);
                }
            }
            g.locations.values[2 * at] += width * w * across;
            g.locations.values[2 * at + 1] += height * w * down;
        }
    });
    return g;
}

}  // namespace deformkit::testing
