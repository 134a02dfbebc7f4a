// The reference of MSDA backward against results worked out by hand, and against finite differences of the forward reference.
#include "tests/support/reference_backward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/support/guarded.h"
#include "tests/support/reference.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

constexpr Type kF32 = Type::kF32;

std::vector<double> widened(const std::vector<float> &numbers) {
    return {numbers.begin(), numbers.end()};
}

/// One sample on one level with one channel.
MsdaReferenceInputs one_sample(const std::vector<double> &map, Level level, double u, double v, double weight, double grad) {
    return {1,        static_cast<int64_t>(map.size()), 1,   1,     1, 1, 1, map, {u, v},
            {weight}, {level.height, level.width},      {0}, {grad}};
}

TEST(ReferenceBackward, WorkedOutByHand) {
    // Rows 1 2 4 and 8 16 32; the sample lies at x = 0.25, y = 0.5, between 1 2 and 8 16.
    const auto e = msda_backward_reference(one_sample({1, 2, 4, 8, 16, 32}, {2, 3}, 0.25, 0.5, 3, 10), kF32);
    EXPECT_EQ(e.value.values, (std::vector<double>{0.75 * 0.5 * 30, 0.25 * 0.5 * 30, 0, 0.75 * 0.5 * 30, 0.25 * 0.5 * 30, 0}));
    EXPECT_EQ(e.weights.values, (std::vector<double>{10 * (0.5 * 1.25 + 0.5 * 10)}));
    EXPECT_EQ(e.locations.values, (std::vector<double>{3 * 3 * 10 * (0.5 * 1 + 0.5 * 8), 2 * 3 * 10 * (0.75 * 7 + 0.25 * 14)}));
    EXPECT_TRUE(e.locations.alternatives.empty());
}

TEST(ReferenceBackward, CornersOffTheMapAreZero) {
    // x = -0.5, y = 0: half of the cell, and nothing to its left.
    const auto e = msda_backward_reference(one_sample({6, 7}, {1, 2}, 0, 0.5, 2, 1), kF32);
    EXPECT_EQ(e.value.values, (std::vector<double>{1, 0}));
    EXPECT_EQ(e.weights.values, (std::vector<double>{3}));
    EXPECT_EQ(e.locations.values[0], 2 * 2 * 6);
}

TEST(ReferenceBackward, OutsideIsNothingWhateverItIsMultipliedWith) {
    for (double u : {-0.3, 1.3, kNan, kInf, -kInf, 1e30}) {
        for (double bad : {kNan, kInf, 1.0}) {
            const auto e = msda_backward_reference(one_sample({bad, bad}, {1, 2}, u, 0.5, bad, bad), kF32);
            EXPECT_EQ(e.value.values, (std::vector<double>{0, 0}));
            EXPECT_EQ(e.weights.values, (std::vector<double>{0}));
            EXPECT_EQ(e.locations.values, (std::vector<double>{0, 0}));
            EXPECT_FALSE(e.weights.allows(0, kNan, kF32) || e.weights.allows(0, 1e-44, kF32));
            EXPECT_TRUE(e.weights.allows(0, 0, kF32) && e.locations.allows(1, 0, kF32) && e.value.allows(0, 0, kF32));
        }
    }
}

TEST(ReferenceBackward, KeysOutsideTheTensorAreNoCells) {
    MsdaReferenceInputs in = one_sample({1, 2, 4}, {1, 3}, 0.4, 0.5, 1, 1);  // x = 0.7
    for (int64_t start : {-4, 3, 1000}) {
        in.starts = {start};
        const auto e = msda_backward_reference(in, kF32);
        EXPECT_EQ(e.value.values, (std::vector<double>{0, 0, 0}));
        EXPECT_EQ(e.weights.values, (std::vector<double>{0}));
    }
    in.starts = {-1};
    const auto e = msda_backward_reference(in, kF32);
    EXPECT_NEAR(e.value.values[0], 0.7, 1e-15);
    EXPECT_NEAR(e.weights.values[0], 0.7, 1e-15);
    in.starts = {std::numeric_limits<int64_t>::max()};
    in.shapes = in.starts;
    in.shapes.push_back(in.starts[0]);
    EXPECT_EQ(msda_backward_reference(in, kF32).value.values, (std::vector<double>{0, 0, 0}));
}

TEST(ReferenceBackward, NonFiniteNumbersStayWhereTheyAre) {
    // x = -0.3, y = 0: the left corner, whatever would be there, is off the map.
    auto e = msda_backward_reference(one_sample({5, kNan}, {1, 2}, 0.1, 0.5, 1, 1), kF32);
    EXPECT_TRUE(std::isfinite(e.weights.values[0]) && std::isfinite(e.locations.values[0]));
    e = msda_backward_reference(one_sample({5, 6}, {1, 2}, 0.1, 0.5, 1, kInf), kF32);
    EXPECT_EQ(e.value.values, (std::vector<double>{kInf, 0}));
    EXPECT_FALSE(std::isfinite(e.weights.values[0]));
    EXPECT_TRUE(e.weights.allows(0, kNan, kF32) && e.weights.allows(0, -kInf, kF32) && !e.weights.allows(0, 0, kF32));
    EXPECT_TRUE(e.value.allows(0, kInf, kF32) && !e.value.allows(0, kNan, kF32) && !e.value.allows(0, -kInf, kF32));
    e = msda_backward_reference(one_sample({5, 6}, {1, 2}, 0.1, 0.5, kNan, 1), kF32);
    EXPECT_TRUE(std::isnan(e.value.values[0]) && std::isfinite(e.weights.values[0]) && std::isnan(e.locations.values[0]));
}

/// On a line between cells the interpolation has a kink: its slopes on both sides are right, and nothing in between.
TEST(ReferenceBackward, EitherSideOfALineBetweenCellsIsRight) {
    // Cells 1, 2, 4: x = 1 exactly. Slopes 1 and 2, times W.
    const auto e = msda_backward_reference(one_sample({1, 2, 4}, {1, 3}, 0.5, 0.5, 1, 1), kF32);
    for (double right : {3.0, 6.0}) {
        EXPECT_TRUE(e.locations.allows(0, right, kF32)) << right;
    }
    for (double wrong : {4.5, 0.0, 2.999, 3.001, 5.999, 6.001, kNan}) {
        EXPECT_FALSE(e.locations.allows(0, wrong, kF32)) << wrong;
    }
    // Where the map's padding ends, x = W: half in, half out.
    const auto edge = msda_backward_reference(one_sample({1, 2, 4, 8}, {1, 4}, 1.125, 0.5, 1, 1), kF32);
    EXPECT_TRUE(edge.locations.allows(0, 0, kF32) && edge.locations.allows(0, -4 * 8, kF32));
    EXPECT_FALSE(edge.locations.allows(0, 4 * 8, kF32) || edge.locations.allows(0, -2 * 8, kF32));
    EXPECT_TRUE(edge.weights.allows(0, 0, kF32) && !edge.weights.allows(0, 1e-3, kF32));
}

TEST(ReferenceBackward, StorageRoundsOnceMore) {
    const auto e = msda_backward_reference(one_sample({1, 3}, {1, 2}, 0.5, 0.5, 0.1, 3), kF32);
    EXPECT_TRUE(e.weights.allows(0, 6 * (1 + 0x1p-23), kF32) && !e.weights.allows(0, 6 * (1 + 0x1p-18), kF32));
    constexpr Type bf16 = Type::kBf16;
    const double want = e.value.values[0], step = std::ldexp(want, -7);
    EXPECT_TRUE(e.value.allows(0, nearest(bf16, want), bf16));
    EXPECT_FALSE(e.value.allows(0, want + step, bf16) || e.value.allows(0, want - step, bf16));
    // Beyond the largest float16 there is only infinity.
    constexpr Type f16 = Type::kF16;
    const auto large = msda_backward_reference(one_sample({1000, 3000}, {1, 2}, 0.5, 0.5, 1, 300), f16);
    EXPECT_TRUE(large.weights.allows(0, kInf, f16) && !large.weights.allows(0, -kInf, f16) &&
                !large.weights.allows(0, 65504, f16));
    EXPECT_FALSE(large.weights.allows(0, kInf, kF32));
}

struct Problem {
    MsdaReferenceInputs inputs;
    /// sum of grad_output * output, by the forward reference.
    double loss() const {
        const MsdaReferenceInputs &in = inputs;
        const auto narrow = [](const std::vector<double> &wide) { return std::vector<float>(wide.begin(), wide.end()); };
        const std::vector<float> value = narrow(in.value), locations = narrow(in.locations), weights = narrow(in.weights);
        const auto view = [](const auto &data, const std::vector<int64_t> &shape) {
            return View<typename std::decay_t<decltype(data)>::value_type>{data.data(), shape, dense_strides(shape)};
        };
        const std::vector<double> output = msda_forward_reference(
            view(value, {in.B, in.K, in.M, in.D}), view(in.shapes, {in.L, 2}), view(in.starts, {in.L}),
            view(locations, {in.B, in.Q, in.M, in.L, in.P, 2}), view(weights, {in.B, in.Q, in.M, in.L, in.P}));
        double sum = 0;
        for (size_t i = 0; i < output.size(); i++) {
            sum += in.grad_output[i] * output[i];
        }
        return sum;
    }
};

/// Levels out of order, overlapping, and reaching beyond the tensor; samples in and outside; positions away from the lines
/// between cells. All inputs are multiples of 2^-15, so that steps of 2^-12 are exact in float32.
Problem proper_problem() {
    const MsdaWorkload workload = {"", 2, 19, 2, 3, {{3, 5}, {1, 4}, {6, 2}}, 3, Locations::kWide};
    MsdaInputs raw = make_msda_inputs(workload, 11);
    Problem p;
    p.inputs = {2,
                28,
                2,
                3,
                19,
                3,
                3,
                widened(raw.value),
                widened(raw.sampling_locations),
                widened(raw.attention_weights),
                {3, 5, 1, 4, 6, 2},
                {10, 0, 20},
                {}};
    MsdaReferenceInputs &in = p.inputs;
    in.value.resize(in.B * in.K * in.M * in.D);
    for (int64_t i = 0; i < in.B * in.Q * in.M * in.D; i++) {
        in.grad_output.push_back(static_cast<double>(i * 29 % 37) / 16 - 1);
    }
    for (size_t i = 0; i < in.value.size(); i++) {
        in.value[i] = static_cast<double>(i * 31 % 101) / 32 - 1;
    }
    for (double &weight : in.weights) {
        weight = std::ldexp(std::nearbyint(std::ldexp(weight, 15)), -15);
    }
    for (size_t i = 0; i < in.locations.size(); i++) {
        const int64_t level = static_cast<int64_t>(i) / 2 / in.P % in.L;
        const auto extent = static_cast<double>(in.shapes[2 * level + (i % 2 == 0 ? 1 : 0)]);
        double &u = in.locations[i];
        u = u * 1.2 - 0.1;
        const double position = u * extent - 0.5, cell = std::floor(position);
        u = std::ldexp(std::nearbyint(std::ldexp((cell + 0.1 + 0.8 * (position - cell) + 0.5) / extent, 15)), -15);
    }
    return p;
}

TEST(ReferenceBackward, FiniteDifferencesOfTheForwardReference) {
    Problem p = proper_problem();
    const MsdaBackwardExpected e = msda_backward_reference(p.inputs, Type::kF64);
    EXPECT_TRUE(e.locations.alternatives.empty());
    const auto check = [&](std::vector<double> &numbers, const std::vector<double> &gradient, const char *name) {
        ASSERT_EQ(numbers.size(), gradient.size());
        constexpr double kStep = 0x1p-12;
        int64_t nonzero = 0, zero = 0;
        for (size_t i = 0; i < numbers.size(); i++) {
            const double before = numbers[i];
            numbers[i] = before + kStep;
            const double above = p.loss();
            numbers[i] = before - kStep;
            const double below = p.loss();
            numbers[i] = before;
            // In one number at a time the output is linear between the lines: the difference is exact but for rounding.
            EXPECT_NEAR(gradient[i], (above - below) / (2 * kStep), 1e-10) << name << "[" << i << "]";
            ++(gradient[i] == 0 ? zero : nonzero);
        }
        EXPECT_GT(nonzero, zero) << name;
        EXPECT_GT(zero, 0) << name << ": everything is inside";
    };
    check(p.inputs.value, e.value.values, "value");
    check(p.inputs.locations, e.locations.values, "sampling_locations");
    check(p.inputs.weights, e.weights.values, "attention_weights");
}

/// What float32 computes from float32 has to be allowed: here with neighbouring locations, half of whose difference a rounding
/// explains. And the tolerance has to be of the size of roundings.
TEST(ReferenceBackward, TolerancesAreRoundings) {
    const MsdaWorkload workload = {"", 1, 200, 1, 3, {{9, 13}, {100, 167}}, 2, Locations::kNear};
    const MsdaInputs raw = make_msda_inputs(workload, 5);
    MsdaReferenceInputs in = {1,
                              workload.keys(),
                              1,
                              3,
                              200,
                              2,
                              2,
                              widened(raw.value),
                              widened(raw.sampling_locations),
                              widened(raw.attention_weights),
                              raw.spatial_shapes,
                              raw.level_start_index,
                              std::vector<double>(600, 0.75)};
    const MsdaBackwardExpected before = msda_backward_reference(in, 2 * 0x1p-24, 0);
    for (double &u : in.locations) {
        u = std::nextafter(static_cast<float>(u), 2.0f);
    }
    const MsdaBackwardExpected after = msda_backward_reference(in, kF32);
    int64_t changed = 0;
    for (const auto member : {&MsdaBackwardExpected::value, &MsdaBackwardExpected::locations, &MsdaBackwardExpected::weights}) {
        const Expected &from = before.*member, &to = after.*member;
        const double largest = *std::max_element(from.values.begin(), from.values.end());
        for (size_t i = 0; i < from.values.size(); i++) {
            EXPECT_TRUE(from.allows(static_cast<int64_t>(i), to.values[i], kF32))
                << to.values[i] << " after " << from.values[i];
            EXPECT_LT(from.tolerances[i], 3e-4 * largest);
            changed += from.values[i] != to.values[i];
        }
    }
    EXPECT_GT(changed, 1000);
}

}  // namespace
}  // namespace deformkit::testing
