#include "tests/support/reference_gka.h"

#include <algorithm>
#include <cmath>

namespace deformkit::testing {

namespace {

__extension__ typedef __int128 int128;  // sums of what index tensors may hold

/// Calls visit(row b * Q + q, head, sample, key) for samples that have a cell.
template <typename Visit>
void for_each_sample(const MsdaReferenceInputs &in, const Visit &visit) {
    for (int64_t i = 0; i < in.B * in.Q * in.M * in.L * in.P; i++) {
        const double x = in.locations[2 * i], y = in.locations[2 * i + 1];
        const int64_t level = i / in.P % in.L, height = in.shapes[2 * level], width = in.shapes[2 * level + 1];
        if (!std::isfinite(x) || !std::isfinite(y) || height <= 0 || width <= 0) {
            continue;
        }
        const auto cell = [](double location, int64_t extent) {
            return static_cast<int64_t>(std::trunc(std::clamp(location, 0.0, static_cast<double>(extent - 1))));
        };
        const int128 key =
            static_cast<int128>(in.starts[level]) + static_cast<int128>(cell(y, height)) * width + cell(x, width);
        if (key >= 0 && key < in.K) {
            visit(i / (in.P * in.L * in.M), i / (in.P * in.L) % in.M, i, static_cast<int64_t>(key));
        }
    }
}

}  // namespace

Expected gka_forward_reference(const MsdaReferenceInputs &in, double rounding) {
    Expected output(in.B * in.Q * in.M * in.D);
    for_each_sample(in, [&](int64_t row, int64_t m, int64_t i, int64_t key) {
        for (int64_t d = 0; d < in.D; d++) {
            const double term = in.weights[i] * in.value[((row / in.Q * in.K + key) * in.M + m) * in.D + d];
            output.values[(row * in.M + m) * in.D + d] += term;
            output.tolerances[(row * in.M + m) * in.D + d] +=
                rounding * (static_cast<double>(in.L * in.P) + 3) * std::fabs(term);
        }
    });
    return output;
}

GkaGradients gka_backward_reference(const MsdaReferenceInputs &in, double rounding) {
    GkaGradients g;
    g.value = Expected(in.B * in.K * in.M * in.D);
    g.weights = Expected(in.B * in.Q * in.M * in.L * in.P);
    for_each_sample(in, [&](int64_t row, int64_t m, int64_t i, int64_t key) {
        for (int64_t d = 0; d < in.D; d++) {
            const int64_t cell = ((row / in.Q * in.K + key) * in.M + m) * in.D + d;
            const double e = in.grad_output[(row * in.M + m) * in.D + d];
            g.value.values[cell] += in.weights[i] * e;
            g.value.tolerances[cell] += rounding * (static_cast<double>(in.Q * in.L * in.P) + 3) * std::fabs(in.weights[i] * e);
            g.weights.values[i] += e * in.value[cell];
            g.weights.tolerances[i] += rounding * (static_cast<double>(in.D) + 3) * std::fabs(e * in.value[cell]);
        }
    });
    return g;
}

}  // namespace deformkit::testing
