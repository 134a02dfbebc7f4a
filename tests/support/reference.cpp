#include "tests/support/reference.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <limits>
#include <thread>

namespace deformkit::testing {

namespace {

// A key is the sum of three numbers that a caller may have chosen as large as int64 goes.
__extension__ typedef __int128 int128;

/// A location along one axis of a map that is `extent` cells long.
struct Coordinate {
    double position = 0, fraction = 0;
    double error = 0;                               ///< of the kernels' computation, in its roundings
    int64_t cell = 0;                               ///< floor(position)
    bool inside = false;                            ///< -1 < position < extent
    bool near = false;                              ///< inside, or so little outside that the kernels may disagree
    int64_t first_interval = 0, last_interval = 0;  ///< cells that the kernels may arrive at

    Coordinate(double normalised, int64_t extent, double rounding) {
        const double e = static_cast<double>(extent), scaled = normalised * e;
        position = scaled - 0.5;
        // Rounded: the extent and its product, the subtraction of 0.5, the subtraction of the cell.
        error = 2 * std::fabs(scaled) + std::fabs(position) + 1;
        inside = -1 < position && position < e;
        const double slack = error * rounding;
        near = std::isfinite(error) && -1 - slack < position && position < e + slack;
        if (near) {
            cell = static_cast<int64_t>(std::floor(position));
            fraction = position - static_cast<double>(cell);
            first_interval = static_cast<int64_t>(std::floor(position - slack));
            last_interval = static_cast<int64_t>(std::floor(position + slack));
        }
    }

    double weight(int corner) const { return corner == 0 ? 1 - fraction : fraction; }
};

/// The cells of one level, for one batch element and head.
template <typename T>
struct Map {
    const T *value;
    int64_t num_keys, num_channels, key_stride, channel_stride;
    int64_t height, width, first_key;

    /// Whether a cell of these rows and columns can be one: its key may lie in [0, num_keys).
    bool touches(int64_t first_row, int64_t last_row, int64_t first_column, int64_t last_column) const {
        const auto key = [&](int64_t row, int64_t column) {
            return first_key + static_cast<int128>(std::clamp<int64_t>(row, 0, height - 1)) * width +
                   std::clamp<int64_t>(column, 0, width - 1);
        };
        return height > 0 && width > 0 && key(last_row, last_column) >= 0 && key(first_row, first_column) < num_keys;
    }

    /// Zeros where there is no such cell.
    void load(int64_t row, int64_t column, double *cell) const {
        const int128 key = static_cast<int128>(first_key) + static_cast<int128>(row) * width + column;
        if (row < 0 || row >= height || column < 0 || column >= width || key < 0 || key >= num_keys) {
            std::fill_n(cell, num_channels, 0.0);
            return;
        }
        const T *from = value + static_cast<int64_t>(key) * key_stride;
        for (int64_t d = 0; d < num_channels; d++) {
            cell[d] = from[d * channel_stride];
        }
    }
};

/// The sums for one query and head.
class Accumulator {
public:
    explicit Accumulator(int64_t num_channels) : n_(num_channels), cells_(4 * num_channels), steepest_(2 * num_channels) {}

    template <typename T>
    void add(const Map<T> &map, const Coordinate &x, const Coordinate &y, double weight, double *total, double *magnitude,
             double *sensitivity) {
        if (x.inside && y.inside && map.height > 0 && map.width > 0) {
            load_corners(map, x.cell, y.cell);
            const double w00 = x.weight(0) * y.weight(0), w01 = x.weight(1) * y.weight(0);
            const double w10 = x.weight(0) * y.weight(1), w11 = x.weight(1) * y.weight(1);
            const double *v00 = corner(0), *v01 = corner(1), *v10 = corner(2), *v11 = corner(3);
            for (int64_t d = 0; d < n_; d++) {
                total[d] += weight * (w00 * v00[d] + w01 * v01[d] + w10 * v10[d] + w11 * v11[d]);
            }
            for (int64_t d = 0; magnitude != nullptr && d < n_; d++) {
                magnitude[d] += std::fabs(weight) * (w00 * std::fabs(v00[d]) + w01 * std::fabs(v01[d]) +
                                                     w10 * std::fabs(v10[d]) + w11 * std::fabs(v11[d]));
            }
        }
        if (sensitivity != nullptr && x.near && y.near) {
            add_sensitivity(map, x, y, weight, sensitivity);
        }
    }

private:
    double *corner(int64_t c) { return cells_.data() + c * n_; }

    template <typename T>
    void load_corners(const Map<T> &map, int64_t column, int64_t row) {
        for (int64_t c = 0; c < 4; c++) {
            map.load(row + c / 2, column + c % 2, corner(c));
        }
    }

    // The interpolation is continuous, also where it ends, and bilinear between cells. So an error of the coordinate changes it
    // by at most that error times the steepest slope of the intervals that the error can reach.
    template <typename T>
    void add_sensitivity(const Map<T> &map, const Coordinate &x, const Coordinate &y, double weight, double *sensitivity) {
        if (!map.touches(y.first_interval, y.last_interval + 1, x.first_interval, x.last_interval + 1)) {
            return;
        }
        constexpr int64_t kMostIntervals = 16;
        if (x.last_interval - x.first_interval > kMostIntervals || y.last_interval - y.first_interval > kMostIntervals) {
            // A map of 2^28 cells a side: float32 cannot tell its cells apart.
            std::fill_n(sensitivity, n_, std::numeric_limits<double>::infinity());
            return;
        }
        double *steepest_x = steepest_.data(), *steepest_y = steepest_.data() + n_;
        std::fill(steepest_.begin(), steepest_.end(), 0.0);
        for (int64_t row = y.first_interval; row <= y.last_interval; row++) {
            for (int64_t column = x.first_interval; column <= x.last_interval; column++) {
                load_corners(map, column, row);
                const double *v00 = corner(0), *v01 = corner(1), *v10 = corner(2), *v11 = corner(3);
                const double ax = std::clamp(x.position - static_cast<double>(column), 0.0, 1.0);
                const double ay = std::clamp(y.position - static_cast<double>(row), 0.0, 1.0);
                for (int64_t d = 0; d < n_; d++) {
                    const double slope_x = (v01[d] - v00[d]) * (1 - ay) + (v11[d] - v10[d]) * ay;
                    const double slope_y = (v10[d] - v00[d]) * (1 - ax) + (v11[d] - v01[d]) * ax;
                    steepest_x[d] = std::max(steepest_x[d], std::fabs(slope_x));
                    steepest_y[d] = std::max(steepest_y[d], std::fabs(slope_y));
                }
            }
        }
        for (int64_t d = 0; d < n_; d++) {
            sensitivity[d] += std::fabs(weight) * (x.error * steepest_x[d] + y.error * steepest_y[d]);
        }
    }

    int64_t n_;
    std::vector<double> cells_, steepest_;
};

}  // namespace

template <typename T>
std::vector<double> msda_forward_reference(const View<T> &value, const View<int64_t> &spatial_shapes,
                                           const View<int64_t> &level_start_index, const View<T> &sampling_locations,
                                           const View<T> &attention_weights, std::vector<double> *magnitude,
                                           std::vector<double> *sensitivity, double rounding) {
    const int64_t B = value.shape[0], K = value.shape[1], M = value.shape[2], D = value.shape[3];
    const int64_t Q = sampling_locations.shape[1], L = sampling_locations.shape[3], P = sampling_locations.shape[4];
    std::vector<double> output(B * Q * M * D, 0.0);
    for (std::vector<double> *extra : {magnitude, sensitivity}) {
        if (extra != nullptr) {
            extra->assign(output.size(), 0.0);
        }
    }

    const auto one_query = [&](int64_t b, int64_t q, Accumulator &accumulator) {
        for (int64_t m = 0; m < M; m++) {
            const int64_t to = ((b * Q + q) * M + m) * D;
            for (int64_t l = 0; l < L; l++) {
                const int64_t *shape = spatial_shapes.data + l * spatial_shapes.strides[0];
                const int64_t height = shape[0], width = shape[spatial_shapes.strides[1]];
                const Map<T> map{value.data + b * value.strides[0] + m * value.strides[2],
                                 K,
                                 D,
                                 value.strides[1],
                                 value.strides[3],
                                 height,
                                 width,
                                 level_start_index.data[l * level_start_index.strides[0]]};
                for (int64_t p = 0; p < P; p++) {
                    const std::vector<int64_t> &s = sampling_locations.strides, &t = attention_weights.strides;
                    const T *uv = sampling_locations.data + b * s[0] + q * s[1] + m * s[2] + l * s[3] + p * s[4];
                    const double weight = attention_weights.data[b * t[0] + q * t[1] + m * t[2] + l * t[3] + p * t[4]];
                    accumulator.add(map, Coordinate(uv[0], width, rounding), Coordinate(uv[s[5]], height, rounding), weight,
                                    output.data() + to, magnitude == nullptr ? nullptr : magnitude->data() + to,
                                    sensitivity == nullptr ? nullptr : sensitivity->data() + to);
                }
            }
        }
    };

    const int64_t queries = B * Q, work = queries * M * L * P * D;
    const int64_t threads = work < 100000 ? 1 : std::max<int64_t>(1, std::thread::hardware_concurrency());
    const auto share = [&](int64_t t) {
        Accumulator accumulator(D);
        for (int64_t i = queries * t / threads; i < queries * (t + 1) / threads; i++) {
            one_query(i / Q, i % Q, accumulator);
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
    return output;
}

template std::vector<double> msda_forward_reference(const View<float> &, const View<int64_t> &, const View<int64_t> &,
                                                    const View<float> &, const View<float> &, std::vector<double> *,
                                                    std::vector<double> *, double);
template std::vector<double> msda_forward_reference(const View<double> &, const View<int64_t> &, const View<int64_t> &,
                                                    const View<double> &, const View<double> &, std::vector<double> *,
                                                    std::vector<double> *, double);

double msda_forward_tolerance(Type type, int64_t samples, double magnitude, double sensitivity) {
    // Each of the 4 * samples terms is rounded five times (1 - ax, 1 - ay, three products), and a sum of n terms rounds each of
    // them at most n - 1 times, whatever its order. The factor covers terms of second order, the last term underflow. A
    // reference in float64 is no better than the kernels for float64.
    const double roundings = 4.0 * static_cast<double>(samples) + 4;
    const double once = 1.001 * rounding_of_arithmetic(type) * (roundings * magnitude + sensitivity) +
                        4.0 * static_cast<double>(samples) * underflow_of_arithmetic(type);
    return type == Type::kF64 ? 2 * once : once;
}

}  // namespace deformkit::testing
