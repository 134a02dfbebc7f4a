// MSDA backward with NaN and infinities among its inputs: they reach the gradients that depend on them, and no others.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

MsdaBackwardCase tie_free_case(const MsdaWorkload &workload, Type type) {
    MsdaBackwardCase c = make_backward_case(workload, type);
    avoid_ties(c);
    return c;
}

/// The elements that are finite, as before to the last bit.
::testing::AssertionResult others_unchanged(const std::vector<double> &now, const std::vector<double> &before) {
    std::vector<double> expected = now;
    for (size_t i = 0; i < now.size(); i++) {
        if (std::isfinite(now[i])) {
            expected[i] = before[i];
        }
    }
    return same_bits(now, expected);
}

::testing::AssertionResult others_unchanged(const MsdaGradients &now, const MsdaGradients &before) {
    for (const auto member : {&MsdaGradients::value, &MsdaGradients::locations, &MsdaGradients::weights}) {
        if (const auto same = others_unchanged(now.*member, before.*member); !same) {
            return same;
        }
    }
    return ::testing::AssertionSuccess();
}

int64_t count_nonfinite(const MsdaGradients &gradients) {
    int64_t count = 0;
    for (const auto *each : {&gradients.value, &gradients.locations, &gradients.weights}) {
        count += std::count_if(each->begin(), each->end(), [](double x) { return !std::isfinite(x); });
    }
    return count;
}

/// One bad number at a time, in every `step`-th element of one input.
void plant(const MsdaWorkload &workload, Type type, std::vector<double> MsdaBackwardInputs::*input, int64_t step) {
    const MsdaBackwardCase clean = tie_free_case(workload, type);
    const MsdaGradients expected = run(clean);
    EXPECT_TRUE(matches_reference(clean, expected));
    EXPECT_EQ(count_nonfinite(expected), 0);
    const auto total = static_cast<int64_t>(expected.value.size() + expected.locations.size() + expected.weights.size());
    int64_t reached = 0, planted = 0;
    const auto size = static_cast<int64_t>((clean.*input).size());
    for (int64_t at = 0; at < size; at += step, planted++) {
        MsdaBackwardCase c = clean;
        const double bad = std::array{kNan, kInf, -kInf}[planted % 3];
        (c.*input)[at] = bad;
        SCOPED_TRACE(::testing::Message() << bad << " in element " << at << " of " << size);
        const MsdaGradients gradients = run(c);
        EXPECT_TRUE(matches_reference(c, gradients));
        if (input != &MsdaBackwardInputs::locations) {
            EXPECT_TRUE(others_unchanged(gradients, expected));
        }
        if (input == &MsdaBackwardInputs::value) {
            EXPECT_TRUE(same_bits(gradients.value, expected.value)) << "grad_value does not depend on value";
        }
        if (input == &MsdaBackwardInputs::weights) {
            EXPECT_TRUE(same_bits(gradients.weights, expected.weights)) << "grad_attention_weights does not depend on them";
        }
        if (::testing::Test::HasFailure()) {
            return;
        }
        reached += count_nonfinite(gradients);
    }
    EXPECT_GE(planted, 10);
    EXPECT_LT(reached, planted * total / 2);
    if (input == &MsdaBackwardInputs::locations) {
        EXPECT_EQ(reached, 0) << "a sample without a place is outside";
    } else {
        EXPECT_GT(reached, 0);
    }
}

/// Many at once, of either sign, where infinities meet.
void check_many(Type type) {
    for (const MsdaWorkload &workload : {awkward_workload("samples_3x4"), crowded(awkward_workload("channels_7"))}) {
        for (const auto input : {&MsdaBackwardInputs::value, &MsdaBackwardInputs::weights, &MsdaBackwardInputs::grad_output}) {
            MsdaBackwardCase c = tie_free_case(workload, type);
            std::mt19937 random(1);
            for (double &number : c.*input) {
                if (random() % 64 == 0) {
                    number = std::array{kInf, -kInf, kNan}[random() % 5 / 2];
                }
            }
            const MsdaGradients gradients = run(c);
            EXPECT_TRUE(matches_reference(c, gradients));
            const int64_t nonfinite = count_nonfinite(gradients);
            EXPECT_GT(nonfinite, 0);
            EXPECT_LT(nonfinite, static_cast<int64_t>(gradients.value.size() + 3 * gradients.weights.size()));
        }
    }
}

/// A map of one row or column, or of a single cell, has corners off the map around every sample.
void check_off_map_corners(Type type) {
    for (const Level &level : {Level{1, 1}, {1, 6}, {6, 1}}) {
        MsdaBackwardCase c = tie_free_case({"", 1, 30, 2, 11, {level, {2, 3}, level}, 2, Locations::kWide}, type);
        const MsdaGradients expected = run(c);
        EXPECT_TRUE(matches_reference(c, expected));
        // What a kernel might read in place of an off-map corner: the cells before, behind and in the level between.
        const int64_t cells = level.height * level.width, row = c.M * c.D;
        for (int64_t i = 0; i < 6 * row; i++) {
            c.value[cells * row + i] = std::array{kNan, kInf, -kInf}[i % 3];
        }
        const MsdaGradients gradients = run(c);
        EXPECT_TRUE(matches_reference(c, gradients));
        const int64_t per_level = c.P;
        for (int64_t s = 0; s < c.samples(); s++) {
            if (s / per_level % 3 != 1) {
                const auto of_sample = [&](const MsdaGradients &g) {
                    return std::vector<double>{g.weights[s], g.locations[2 * s], g.locations[2 * s + 1]};
                };
                EXPECT_TRUE(same_bits(of_sample(gradients), of_sample(expected))) << "sample " << s;
            }
        }
    }
}

/// Keys between and behind the levels belong to no map: what they hold is not used, and their gradient is zero.
void check_unused_keys(Type type) {
    for (int64_t channels : {8, 11, 32}) {
        for (int64_t queries : {5, 200}) {
            const MsdaBackwardCase c =
                tie_free_case({"", 2, queries, 2, channels, {{3, 4}, {2, 5}, {1, 3}}, 4, Locations::kNear}, type);
            const MsdaGradients expected = run(c);
            // The same maps with 4 keys of NaN before each and behind the last.
            MsdaBackwardCase spread = c;
            spread.K = c.K + 4 * (c.L + 1);
            spread.value.assign(spread.B * spread.K * spread.M * spread.D, kNan);
            std::vector<double> grad_value(spread.value.size(), 0.0);
            const int64_t row = c.M * c.D;
            for (int64_t l = 0; l < c.L; l++) {
                spread.starts[l] = c.starts[l] + 4 * (l + 1);
                const int64_t count = c.shapes[2 * l] * c.shapes[2 * l + 1] * row;
                for (int64_t b = 0; b < c.B; b++) {
                    const int64_t from = (b * c.K + c.starts[l]) * row, to = (b * spread.K + spread.starts[l]) * row;
                    std::copy_n(&c.value[from], count, &spread.value[to]);
                    std::copy_n(&expected.value[from], count, &grad_value[to]);
                }
            }
            const MsdaGradients gradients = run(spread);
            EXPECT_TRUE(is_substantial(gradients, 0.05, 0.25));
            EXPECT_TRUE(matches_reference(spread, gradients));
            EXPECT_TRUE(same_bits(gradients.value, grad_value));
            EXPECT_TRUE(same_bits(gradients.locations, expected.locations));
            EXPECT_TRUE(same_bits(gradients.weights, expected.weights));
        }
    }
}

/// Nothing but NaN in all other inputs, and every sample outside.
void check_all_outside(Type type) {
    for (const char *name : {"samples_4x4", "channels_7", "row_map", "one_cell"}) {
        MsdaBackwardCase c = make_backward_case(awkward_workload(name), type);
        for (auto *input : {&c.value, &c.weights, &c.grad_output}) {
            input->assign(input->size(), kNan);
        }
        const double outside[] = {-0.75, 1.75, kNan, 60000, -kInf};
        for (size_t i = 0; i < c.locations.size(); i += 2) {
            // More than half a cell beyond the map, also where the map is one cell long.
            c.locations[i + i / 2 % 2] = nearest(type, outside[i / 2 % 5]);
        }
        const MsdaGradients gradients = run(c);
        for (const auto *each : {&gradients.value, &gradients.locations, &gradients.weights}) {
            EXPECT_TRUE(same_bits(*each, std::vector<double>(each->size(), 0.0))) << name;
        }
    }
}

const bool registered = [] {
    constexpr Locations near = Locations::kNear;
    static const std::vector<MsdaWorkload> workloads = {
        {"channels_16", 2, 5, 2, 16, {{5, 7}, {3, 4}}, 2, near}, {"channels_7", 1, 5, 3, 7, {{5, 7}, {3, 4}}, 2, near},
        {"channels_32", 1, 5, 2, 32, {{4, 5}, {1, 9}}, 4, near}, {"channel_1", 2, 5, 2, 1, {{4, 5}, {9, 1}}, 2, near},
        {"channels_40", 1, 5, 1, 40, {{4, 5}}, 2, near},         {"single_cells", 1, 5, 2, 8, {{1, 1}, {1, 1}}, 4, near},
        {"encoder_32", 1, 80, 2, 32, {{4, 5}, {3, 2}}, 4, near}, {"encoder_11", 2, 80, 1, 11, {{4, 5}, {3, 2}}, 4, near},
    };
    struct Input {
        std::string name;
        std::vector<double> MsdaBackwardInputs::*numbers;
    };
    for (const MsdaWorkload &workload : workloads) {
        for (const Input &input : {Input{"value", &MsdaBackwardInputs::value},
                                   {"locations", &MsdaBackwardInputs::locations},
                                   {"weights", &MsdaBackwardInputs::weights},
                                   {"grad_output", &MsdaBackwardInputs::grad_output}}) {
            for_each_msda_backward_variant("Nonfinite", input.name + "_" + workload.name,
                                           [=, &workload](const Variant &, Type type) {
                                               const MsdaBackwardCase c = make_backward_case(workload, type);
                                               const auto size = static_cast<int64_t>((c.*input.numbers).size());
                                               // About a hundred places, of every channel, head and level.
                                               plant(workload, type, input.numbers, std::max<int64_t>(1, size / 97) | 1);
                                           });
        }
    }
    const auto add = [](const char *name, void (*check)(Type)) {
        for_each_msda_backward_variant("Nonfinite", name, [=](const Variant &, Type type) { check(type); });
    };
    add("many", check_many);
    add("off_map_corners", check_off_map_corners);
    add("unused_keys", check_unused_keys);
    add("all_outside", check_all_outside);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
