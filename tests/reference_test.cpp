// The reference against results worked out by hand, and against maps whose interpolation is known.
#include "tests/support/reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/guarded.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

template <typename T>
View<T> view(const std::vector<T> &data, const std::vector<int64_t> &shape) {
    return {data.data(), shape, dense_strides(shape)};
}

/// One sample of weight 1 on one level with one channel.
double sample_map(const std::vector<float> &map, Level level, float u, float v, int64_t first_key = 0) {
    const std::vector<int64_t> shapes = {level.height, level.width}, starts = {first_key};
    const std::vector<float> locations = {u, v}, weights = {1};
    return msda_forward_reference(view(map, {1, static_cast<int64_t>(map.size()), 1, 1}), view(shapes, {1, 2}),
                                  view(starts, {1}), view(locations, {1, 1, 1, 1, 1, 2}), view(weights, {1, 1, 1, 1, 1}))[0];
}

TEST(Reference, CornersAndEdges) {
    const std::vector<float> map = {1, 2, 4, 8, 16, 32, 64, 128};  // rows 1 2 4 8 and 16 32 64 128
    const Level level = {2, 4};
    EXPECT_EQ(sample_map(map, level, 0.125f, 0.25f), 1);    // centre of the first cell
    EXPECT_EQ(sample_map(map, level, 0.875f, 0.75f), 128);  // centre of the last
    EXPECT_EQ(sample_map(map, level, 0.25f, 0.25f), 1.5);   // half way to the next column
    EXPECT_EQ(sample_map(map, level, 0.125f, 0.5f), 8.5);   // half way to the next row
    EXPECT_EQ(sample_map(map, level, 0.5f, 0.5f), (2 + 4 + 32 + 64) / 4.0);
    EXPECT_EQ(sample_map(map, level, 0.1875f, 0.25f), 1.25);  // a quarter of the way
    EXPECT_EQ(sample_map(map, level, 0, 0), 0.25);            // the outermost corner: a quarter of the cell
    EXPECT_EQ(sample_map(map, level, 1, 1), 32);
    EXPECT_EQ(sample_map(map, level, 1, 0.25f), 4);            // the right edge: half of the cell
    EXPECT_EQ(sample_map(map, level, -0.0625f, 0.25f), 0.25);  // x = -0.75
    EXPECT_EQ(sample_map(map, level, -0.125f, 0.25f), 0);      // x = -1
    EXPECT_EQ(sample_map(map, level, 1.125f, 0.25f), 0);       // x = W
    EXPECT_EQ(sample_map(map, level, 0.125f, -0.25f), 0);      // y = -1
    EXPECT_EQ(sample_map(map, level, 0.125f, 1.25f), 0);       // y = H
    EXPECT_EQ(sample_map({7}, {1, 1}, 0.5f, 0.5f), 7);
    EXPECT_EQ(sample_map({7}, {1, 1}, 0.25f, 0.75f), 7 * 0.75 * 0.75);
}

TEST(Reference, WithoutAPlaceThereIsNothing) {
    for (float bad : {kNan, kInf, -kInf, 1e30f, -1e30f}) {
        EXPECT_EQ(sample_map({kNan}, {1, 1}, bad, 0.5f), 0);
        EXPECT_EQ(sample_map({kNan}, {1, 1}, 0.5f, bad), 0);
    }
}

TEST(Reference, NonFiniteCellsStayWhereTheyAre) {
    const std::vector<float> map = {1, 2, kNan, 8};
    EXPECT_EQ(sample_map(map, {1, 4}, 0.25f, 0.5f), 1.5);
    EXPECT_TRUE(std::isnan(sample_map(map, {1, 4}, 0.5f, 0.5f)));
    EXPECT_EQ(sample_map(map, {1, 4}, 1.0f, 0.5f), 4);
    EXPECT_EQ(sample_map({1, kInf}, {1, 2}, 0.5f, 0.5f), kInf);
    // The cell beside the map's last is another map's.
    EXPECT_EQ(sample_map(map, {1, 2}, 1.0f, 0.5f), 1);
}

TEST(Reference, KeysOutsideTheTensorAreNoCells) {
    const std::vector<float> map = {1, 2, 4, 8};
    EXPECT_EQ(sample_map(map, {1, 4}, 0.25f, 0.5f, 3), 4);     // cells 8 and nothing
    EXPECT_EQ(sample_map(map, {1, 4}, 0.25f, 0.5f, -1), 0.5);  // nothing and 1
    EXPECT_EQ(sample_map(map, {1, 4}, 0.25f, 0.5f, 4), 0);
    EXPECT_EQ(sample_map(map, {-1, 4}, 0.25f, 0.5f), 0);
    EXPECT_EQ(sample_map(map, {0, 0}, 0.5f, 0.5f), 0);
    EXPECT_EQ(sample_map(map, {2, 2}, 0.5f, 0.5f, std::numeric_limits<int64_t>::max()), 0);
    EXPECT_EQ(sample_map(map, {2, 2}, 0.5f, 0.5f, std::numeric_limits<int64_t>::min()), 0);
}

// Bilinear interpolation leaves planes as they are: the sum can be written down without any interpolation.
TEST(Reference, PlanesAxesAndStrides) {
    const std::vector<Level> levels = {{6, 9}, {5, 4}};
    const int64_t B = 2, K = 74, M = 3, D = 2, Q = 4, L = 2, P = 3;
    const auto plane = [](int64_t b, int64_t m, int64_t l, int64_t d, double y, double x) {
        return 1.0 + b + 2.0 * m + 4.0 * l + 8.0 * d + (0.5 + m) * x - (0.25 + d + b) * y;
    };
    // Value as [M, B, D, K], with channels backwards.
    std::vector<float> value(B * K * M * D), locations, weights;
    const View<float> value_view{value.data() + (D - 1) * K, {B, K, M, D}, {D * K, 1, B * D * K, -K}};
    for (int64_t b = 0; b < B; b++) {
        for (int64_t m = 0; m < M; m++) {
            for (int64_t d = 0; d < D; d++) {
                int64_t key = 20;  // the second level comes first in memory
                for (int64_t l = 0; l < L; l++) {
                    for (int64_t cell = 0; cell < levels[l].height * levels[l].width; cell++) {
                        value[(D - 1) * K + b * D * K + key++ + m * B * D * K - d * K] =
                            static_cast<float>(plane(b, m, l, d, static_cast<double>(cell / levels[l].width),
                                                     static_cast<double>(cell % levels[l].width)));
                    }
                    key = 0;
                }
            }
        }
    }
    for (int64_t i = 0; i < B * Q * M * L * P; i++) {
        locations.push_back(0.2f + 0.6f * static_cast<float>(i * 37 % 101) / 101.0f);
        locations.push_back(0.2f + 0.6f * static_cast<float>(i * 53 % 97) / 97.0f);
        weights.push_back(static_cast<float>(i % 11) - 4.5f);
    }
    const std::vector<int64_t> shapes = {6, 9, 5, 4}, starts = {20, 0};
    std::vector<double> magnitude, sensitivity;
    const std::vector<double> got =
        msda_forward_reference(value_view, view(shapes, {L, 2}), view(starts, {L}), view(locations, {B, Q, M, L, P, 2}),
                               view(weights, {B, Q, M, L, P}), &magnitude, &sensitivity);
    ASSERT_EQ(got.size(), static_cast<size_t>(B * Q * M * D));
    for (int64_t i = 0; i < B * Q * M * D; i++) {
        const int64_t b = i / (Q * M * D), m = i / D % M, d = i % D;
        double expected = 0;
        for (int64_t s = 0; s < L * P; s++) {
            const int64_t at = i / D * L * P + s, l = s / P;
            const double x = static_cast<double>(locations[2 * at]) * static_cast<double>(levels[l].width) - 0.5;
            const double y = static_cast<double>(locations[2 * at + 1]) * static_cast<double>(levels[l].height) - 0.5;
            expected += static_cast<double>(weights[at]) * plane(b, m, l, d, y, x);
        }
        EXPECT_NEAR(got[i], expected, 1e-12 * magnitude[i]);
        EXPECT_GE(magnitude[i] * (1 + 1e-12), std::fabs(got[i]));
        EXPECT_GT(sensitivity[i], 0);
    }
}

// The sensitivity must cover what moving a location by one rounding does.
TEST(Reference, SensitivityCoversNeighbouringLocations) {
    const MsdaWorkload workload = {"", 1, 200, 1, 3, {{9, 13}, {100, 167}}, 2, Locations::kNear};
    MsdaInputs in = make_msda_inputs(workload, 5);
    const int64_t K = workload.keys();
    const auto call = [&](std::vector<double> *magnitude, std::vector<double> *sensitivity) {
        return msda_forward_reference(view(in.value, {1, K, 1, 3}), view(in.spatial_shapes, {2, 2}),
                                      view(in.level_start_index, {2}), view(in.sampling_locations, {1, 200, 1, 2, 2, 2}),
                                      view(in.attention_weights, {1, 200, 1, 2, 2}), magnitude, sensitivity);
    };
    std::vector<double> magnitude, sensitivity;
    const std::vector<double> before = call(&magnitude, &sensitivity);
    for (float &u : in.sampling_locations) {
        u = std::nextafter(u, 2.0f);
    }
    const std::vector<double> after = call(nullptr, nullptr);
    int64_t changed = 0;
    for (size_t i = 0; i < before.size(); i++) {
        // One unit in the last place is at most two roundings of the location.
        EXPECT_LE(std::fabs(after[i] - before[i]), 1.001 * 0x1p-24 * 2 * sensitivity[i]);
        changed += after[i] != before[i];
    }
    EXPECT_GT(changed, static_cast<int64_t>(before.size()) / 2);
}

}  // namespace
}  // namespace deformkit::testing
