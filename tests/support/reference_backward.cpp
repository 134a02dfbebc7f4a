#include "tests/support/reference_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

namespace deformkit::testing {

namespace {

// A key is the sum of three numbers that a caller may have chosen as large as int64 goes.
__extension__ typedef __int128 int128;

constexpr double kInf = std::numeric_limits<double>::infinity();

/// A location along one axis of a map that is `extent` cells long.
struct Axis {
    double position, extent;
    double error;                  ///< of the position, as arithmetic with rounding computes it
    int64_t cell = 0;              ///< floor(position)
    bool inside;                   ///< -1 < position < extent
    bool near;                     ///< inside, or so little outside that arithmetic with rounding may disagree
    int64_t first = 0, count = 0;  ///< intervals between cells that it may arrive at; the first starts at this cell

    Axis(double normalised, int64_t cells, double rounding) {
        extent = static_cast<double>(cells);
        const double scaled = normalised * extent;
        position = scaled - 0.5;
        // Rounded are the extent and its product, the subtraction of 0.5, the subtraction of the cell.
        error = rounding * (2 * std::fabs(scaled) + std::fabs(position) + 1);
        inside = -1 < position && position < extent;
        near = std::isfinite(error) && -1 - error < position && position < extent + error;
        if (near) {
            cell = static_cast<int64_t>(std::floor(position));
            first = static_cast<int64_t>(std::floor(position - error));
            count = static_cast<int64_t>(std::floor(position + error)) - first + 1;
        }
    }

    /// Of the way from `column` to the next.
    double fraction(int64_t column) const { return std::clamp(position - static_cast<double>(column), 0.0, 1.0); }
    /// Of a cell in the interpolation.
    double weight(int64_t column) const { return std::max(0.0, 1 - std::fabs(position - static_cast<double>(column))); }
};

/// grad_output of one query and head, times each cell around a sample.
struct Dots {
    int64_t columns;
    std::vector<double> sum, magnitude;

    double at(int64_t row, int64_t column) const { return sum[row * columns + column]; }
    double magnitude_at(int64_t row, int64_t column) const { return magnitude[row * columns + column]; }
};

/// The samples of one head of one batch element.
class Head {
public:
    Head(const MsdaReferenceInputs &in, double rounding, double smallest_normal, int64_t b, int64_t m, MsdaBackwardExpected &to)
        : in_(in),
          rounding_(rounding),
          smallest_(smallest_normal),
          b_(b),
          m_(m),
          to_(to),
          terms_(in.K, 0.0),
          magnitude_(in.K * in.D, 0.0) {}

    void run() {
        for (int64_t q = 0; q < in_.Q; q++) {
            for (int64_t l = 0; l < in_.L; l++) {
                for (int64_t p = 0; p < in_.P; p++) {
                    add_sample(q, l, (((b_ * in_.Q + q) * in_.M + m_) * in_.L + l) * in_.P + p);
                }
            }
        }
        // Each term is rounded at most six times (1 - ax, 1 - ay, three products), and a sum of n terms rounds each of them at
        // most n - 1 times, whatever its order.
        for (int64_t k = 0; k < in_.K; k++) {
            for (int64_t d = 0; d < in_.D; d++) {
                to_.value.tolerances[element(k, d)] +=
                    rounding_ * (terms_[k] + 6) * magnitude_[k * in_.D + d] + terms_[k] * smallest_;
            }
        }
    }

private:
    int64_t element(int64_t key, int64_t d) const { return ((b_ * in_.K + key) * in_.M + m_) * in_.D + d; }

    /// The cell's key, or -1 where there is no such cell.
    int64_t key_of(int64_t level, int64_t row, int64_t column) const {
        const int64_t height = in_.shapes[2 * level], width = in_.shapes[2 * level + 1];
        if (row < 0 || row >= height || column < 0 || column >= width) {
            return -1;
        }
        const int128 key = static_cast<int128>(in_.starts[level]) + static_cast<int128>(row) * width + column;
        return key >= 0 && key < in_.K ? static_cast<int64_t>(key) : -1;
    }

    /// Whether any cell in reach of the sample can be one.
    bool touches(int64_t level, const Axis &x, const Axis &y) const {
        const int64_t height = in_.shapes[2 * level], width = in_.shapes[2 * level + 1];
        const auto key = [&](int64_t row, int64_t column) {
            return in_.starts[level] + static_cast<int128>(std::clamp<int64_t>(row, 0, height - 1)) * width +
                   std::clamp<int64_t>(column, 0, width - 1);
        };
        return height > 0 && width > 0 && key(y.first + y.count, x.first + x.count) >= 0 && key(y.first, x.first) < in_.K;
    }

    void add_sample(int64_t q, int64_t l, int64_t s) {
        const Axis x(in_.locations[2 * s], in_.shapes[2 * l + 1], rounding_),
            y(in_.locations[2 * s + 1], in_.shapes[2 * l], rounding_);
        if (!x.near || !y.near || in_.shapes[2 * l] <= 0 || in_.shapes[2 * l + 1] <= 0) {
            return;
        }
        const double weight = in_.weights[s];
        if (!touches(l, x, y)) {
            // Inside, and yet no cell, on a level that reaches outside of value: as everywhere, NaN times nothing is NaN.
            if (x.inside && y.inside && !std::isfinite(weight)) {
                to_.locations.values[2 * s] = to_.locations.values[2 * s + 1] = weight * 0;
            }
            return;
        }
        constexpr int64_t kMostIntervals = 16;
        if (x.count > kMostIntervals || y.count > kMostIntervals) {
            give_up(s);
            return;
        }
        const double *g = in_.grad_output.data() + (((b_ * in_.Q + q) * in_.M + m_) * in_.D);
        add_to_value(l, x, y, g, weight);

        const Dots dots = dots_around(l, x, y, g);
        add_to_weights(x, y, dots, s);
        add_to_locations(x, y, dots, weight, s);
    }

    /// A map of 2^28 cells a side: arithmetic in float32 cannot tell its cells apart.
    void give_up(int64_t s) {
        to_.weights.tolerances[s] = to_.locations.tolerances[2 * s] = to_.locations.tolerances[2 * s + 1] = kInf;
        for (int64_t k = 0; k < in_.K; k++) {
            std::fill_n(to_.value.tolerances.data() + element(k, 0), in_.D, kInf);
        }
    }

    void add_to_value(int64_t l, const Axis &x, const Axis &y, const double *g, double weight) {
        for (int64_t j = 0; j < 2 && x.inside && y.inside; j++) {
            for (int64_t i = 0; i < 2; i++) {
                const int64_t key = key_of(l, y.cell + j, x.cell + i);
                if (key < 0) {
                    continue;
                }
                const double corner = x.weight(x.cell + i) * y.weight(y.cell + j);
                double *value = to_.value.values.data() + element(key, 0), *magnitude = magnitude_.data() + key * in_.D;
                for (int64_t d = 0; d < in_.D; d++) {
                    const double term = corner * weight * g[d];
                    value[d] += term;
                    magnitude[d] += std::fabs(term);
                }
                terms_[key]++;
            }
        }
        // A cell's weight in the interpolation falls off with a slope of 1 along each axis. Plain rounding of a cell that is
        // not reached by the error alone has been counted above.
        for (int64_t row = y.first; row <= y.first + y.count; row++) {
            for (int64_t column = x.first; column <= x.first + x.count; column++) {
                const int64_t key = key_of(l, row, column);
                if (key < 0) {
                    continue;
                }
                const double error =
                    std::fabs(weight) * (x.error * y.weight(row) + y.error * x.weight(column) + x.error * y.error);
                double *tolerance = to_.value.tolerances.data() + element(key, 0);
                for (int64_t d = 0; d < in_.D; d++) {
                    tolerance[d] += error * std::fabs(g[d]);
                }
            }
        }
    }

    Dots dots_around(int64_t l, const Axis &x, const Axis &y, const double *g) const {
        Dots dots{x.count + 1, std::vector<double>((x.count + 1) * (y.count + 1), 0.0), {}};
        dots.magnitude = dots.sum;
        for (size_t i = 0; i < dots.sum.size(); i++) {
            const int64_t key =
                key_of(l, y.first + static_cast<int64_t>(i) / dots.columns, x.first + static_cast<int64_t>(i) % dots.columns);
            if (key < 0) {
                continue;
            }
            const double *value = in_.value.data() + element(key, 0);
            double sum = 0, magnitude = 0;
            for (int64_t d = 0; d < in_.D; d++) {
                sum += g[d] * value[d];
                magnitude += std::fabs(g[d] * value[d]);
            }
            dots.sum[i] = sum;
            dots.magnitude[i] = magnitude;
        }
        return dots;
    }

    /// Roundings of a term of a dot product and all that follows: product, sum over channels, corner weights, sum over corners,
    /// attention weight and extent.
    double roundings() const { return static_cast<double>(in_.D) + 12; }
    double underflow() const { return (4 * static_cast<double>(in_.D) + 12) * smallest_; }

    // Continuous, also where the map ends, and bilinear between cells: an error of the position changes it by at most that
    // error times the steepest slope in reach.
    void add_to_weights(const Axis &x, const Axis &y, const Dots &dots, int64_t s) {
        double slope_x = 0, slope_y = 0;
        for (int64_t j = 0; j < y.count; j++) {
            for (int64_t i = 0; i < x.count; i++) {
                const double ax = x.fraction(x.first + i), ay = y.fraction(y.first + j);
                slope_x = std::max(slope_x, std::fabs((dots.at(j, i + 1) - dots.at(j, i)) * (1 - ay) +
                                                      (dots.at(j + 1, i + 1) - dots.at(j + 1, i)) * ay));
                slope_y = std::max(slope_y, std::fabs((dots.at(j + 1, i) - dots.at(j, i)) * (1 - ax) +
                                                      (dots.at(j + 1, i + 1) - dots.at(j, i + 1)) * ax));
            }
        }
        double sum = 0, magnitude = 0;
        for (int64_t c = 0; c < 4 && x.inside && y.inside; c++) {
            const int64_t row = y.cell + c / 2, column = x.cell + c % 2;
            const double corner = x.weight(column) * y.weight(row);
            // Off the map is nothing, not zero times something.
            sum += corner * dots.at(row - y.first, column - x.first);
            magnitude += corner * dots.magnitude_at(row - y.first, column - x.first);
        }
        to_.weights.values[s] = sum;
        to_.weights.tolerances[s] = rounding_ * roundings() * magnitude + x.error * slope_x + y.error * slope_y + underflow();
    }

    /// The gradients of the location, for each interval that its position may be found in.
    void add_to_locations(const Axis &x, const Axis &y, const Dots &dots, double weight, int64_t s) {
        for (int64_t j = 0; j < y.count; j++) {
            for (int64_t i = 0; i < x.count; i++) {
                const double ax = x.fraction(x.first + i), ay = y.fraction(y.first + j);
                const double twist = dots.at(j + 1, i + 1) - dots.at(j + 1, i) - dots.at(j, i + 1) + dots.at(j, i);
                const auto gradient = [&](double scale, double from, double to, double from_far, double to_far, double far) {
                    return scale * ((to - from) * (1 - far) + (to_far - from_far) * far);
                };
                const auto number = [&](double scale, double error, double value, double magnitude) {
                    return Expected::Number{value, rounding_ * roundings() * magnitude + std::fabs(scale * error * twist) +
                                                       underflow() * (1 + std::fabs(scale))};
                };
                const double scale_x = x.extent * weight, scale_y = y.extent * weight;
                const Expected::Number along_x =
                    number(scale_x, y.error,
                           gradient(scale_x, dots.at(j, i), dots.at(j, i + 1), dots.at(j + 1, i), dots.at(j + 1, i + 1), ay),
                           gradient(std::fabs(scale_x), -dots.magnitude_at(j, i), dots.magnitude_at(j, i + 1),
                                    -dots.magnitude_at(j + 1, i), dots.magnitude_at(j + 1, i + 1), ay));
                const Expected::Number along_y =
                    number(scale_y, x.error,
                           gradient(scale_y, dots.at(j, i), dots.at(j + 1, i), dots.at(j, i + 1), dots.at(j + 1, i + 1), ax),
                           gradient(std::fabs(scale_y), -dots.magnitude_at(j, i), dots.magnitude_at(j + 1, i),
                                    -dots.magnitude_at(j, i + 1), dots.magnitude_at(j + 1, i + 1), ax));
                const bool chosen = x.inside && y.inside && x.first + i == x.cell && y.first + j == y.cell;
                for (const auto &[at, gradient_at] : {std::pair(2 * s, along_x), std::pair(2 * s + 1, along_y)}) {
                    if (chosen) {
                        to_.locations.values[at] = gradient_at.value;
                        to_.locations.tolerances[at] = gradient_at.tolerance;
                    } else {
                        alternatives_.emplace_back(at, gradient_at);
                    }
                }
            }
        }
    }

public:
    std::vector<std::pair<int64_t, Expected::Number>> alternatives_;

private:
    const MsdaReferenceInputs &in_;
    double rounding_, smallest_;
    int64_t b_, m_;
    MsdaBackwardExpected &to_;
    std::vector<double> terms_, magnitude_;
};

}  // namespace

MsdaBackwardExpected msda_backward_reference(const MsdaReferenceInputs &in, double rounding, double smallest_normal) {
    MsdaBackwardExpected expected;
    const int64_t samples = in.B * in.Q * in.M * in.L * in.P;
    for (const auto &[gradient, count] : {std::pair(&expected.value, in.B * in.K * in.M * in.D),
                                          {&expected.locations, 2 * samples},
                                          {&expected.weights, samples}}) {
        *gradient = Expected(count);
        gradient->any_nonfinite = gradient != &expected.value;
    }
    // Heads of a batch element share no element of any gradient.
    std::vector<Head> heads;
    for (int64_t i = 0; i < in.B * in.M; i++) {
        heads.emplace_back(in, rounding, smallest_normal, i / in.M, i % in.M, expected);
    }
    const auto num_heads = static_cast<int64_t>(heads.size());
    const int64_t threads =
        samples * in.D < 100000 ? 1 : std::clamp<int64_t>(std::thread::hardware_concurrency(), 1, num_heads);
    const auto share = [&](int64_t t) {
        for (int64_t i = t; i < num_heads; i += threads) {
            heads[i].run();
        }
    };
    std::vector<std::thread> others;
    for (int64_t t = 1; t < threads; t++) {
        others.emplace_back(share, t);
    }
    share(0);
    for (std::thread &other : others) {
        other.join();
    }
    for (const Head &head : heads) {
        for (const auto &[at, number] : head.alternatives_) {
            expected.locations.alternatives[at].push_back(number);
        }
    }
    return expected;
}

MsdaBackwardExpected msda_backward_reference(const MsdaReferenceInputs &in, Type type) {
    const double both = type == Type::kF64 ? 2 : 1;
    return msda_backward_reference(in, 1.001 * both * rounding_of_arithmetic(type), underflow_of_arithmetic(type));
}

}  // namespace deformkit::testing
