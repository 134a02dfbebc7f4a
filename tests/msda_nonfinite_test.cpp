// NaN and infinities in single cells: they reach the outputs whose samples touch the cell, and no others.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "tests/msda_case.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

MsdaCase tie_free_case(const MsdaWorkload &workload, Type type) {
    MsdaCase c = make_case(workload, type);
    avoid_ties(c);
    return c;
}

using Check = std::function<void(const MsdaCase &c, const std::vector<double> &output, const std::vector<double> &clean)>;

/// One bad number at a time, in every cell of every map, at the first, a middle and the last channel. `check` is given the
/// output and the one with all cells finite.
void plant_in_single_cells(const MsdaWorkload &workload, Type type, const Check &check) {
    const MsdaCase clean = tie_free_case(workload, type);
    const std::vector<double> expected = run(clean);
    EXPECT_TRUE(matches_reference(clean, expected));
    int64_t touched = 0, planted = 0;
    for (int64_t cell = 0; cell < clean.B * clean.K * clean.M; cell++) {
        for (int64_t i = 0; i < 9; i++) {
            const double bad = std::array{kNan, kInf, -kInf}[i % 3];
            const int64_t d = std::array{int64_t{0}, clean.D / 2, clean.D - 1}[i / 3];
            MsdaCase c = clean;
            c.value[cell * clean.D + d] = bad;
            planted++;
            SCOPED_TRACE(::testing::Message() << bad << " in key " << cell / clean.M % clean.K << ", head " << cell % clean.M
                                              << ", channel " << d << ", batch " << cell / clean.M / clean.K);
            const std::vector<double> output = run(c);
            check(c, output, expected);
            if (::testing::Test::HasFailure()) {
                return;
            }
            touched += std::count_if(output.begin(), output.end(), [](double x) { return !std::isfinite(x); });
        }
    }
    EXPECT_GT(touched, 0);
    EXPECT_LT(touched, planted * static_cast<int64_t>(expected.size()) / 2);
}

/// The outputs whose samples touch the cell are NaN or infinite, and no others.
void check_touched_only(const MsdaWorkload &workload, Type type) {
    plant_in_single_cells(workload, type,
                          [](const MsdaCase &c, const std::vector<double> &output, const std::vector<double> &) {
                              EXPECT_TRUE(matches_reference(c, output));
                          });
}

/// Not even the rounding of the others changes.
void check_others_unchanged(const MsdaWorkload &workload, Type type) {
    plant_in_single_cells(
        workload, type, [](const MsdaCase &, const std::vector<double> &output, const std::vector<double> &clean) {
            for (size_t i = 0; i < output.size(); i++) {
                if (std::isfinite(output[i])) {
                    ASSERT_TRUE(same_bits({output[i]}, {clean[i]})) << "element " << i << ", after and before";
                }
            }
        });
}

/// Infinities of one sign give infinities, of both signs NaN.
void check_infinities(const Variant &variant) {
    for (const MsdaWorkload &workload : {awkward_workload("samples_3x4"), crowded(awkward_workload("samples_3x4"))}) {
        MsdaCase c = tie_free_case(workload, variant.type());
        std::mt19937 random(1);
        for (double &value : c.value) {
            if (random() % 64 == 0) {
                value = random() % 2 == 0 ? kInf : -kInf;
            }
        }
        const std::vector<double> output = run(c);
        EXPECT_TRUE(matches_reference(c, output));
        int64_t infinite = 0, nan = 0, finite = 0;
        for (double x : output) {
            ++(std::isnan(x) ? nan : std::isinf(x) ? infinite : finite);
        }
        EXPECT_GT(infinite, 0);
        EXPECT_GT(nan, 0);
        EXPECT_GT(finite, 0);
    }
}

/// A weight that is NaN reaches the channels of its own query and head, if its sample is inside.
void check_weights(const Variant &variant) {
    for (const MsdaWorkload &workload : {awkward_workload("samples_3x4"), crowded(awkward_workload("channels_7"))}) {
        MsdaCase c = tie_free_case(workload, variant.type());
        for (size_t i = 0; i < c.weights.size(); i += 101) {
            c.weights[i] = kNan;
        }
        const std::vector<double> output = run(c);
        EXPECT_TRUE(matches_reference(c, output));
        const auto finite = std::count_if(output.begin(), output.end(), [](double x) { return std::isfinite(x); });
        EXPECT_GT(finite, 0);
        EXPECT_LT(finite, static_cast<int64_t>(output.size()));
    }
}

/// Keys between and behind the levels are in the tensor and belong to no map.
void check_unused_keys(Type type, const Check &check) {
    for (int64_t channels : {8, 11, 32}) {
        for (int64_t queries : {5, 200}) {
            MsdaCase c = tie_free_case({"", 2, queries, 2, channels, {{3, 4}, {2, 5}, {1, 3}}, 4, Locations::kNear}, type);
            const std::vector<double> expected = run(c);
            // The same maps with 4 keys of NaN before each and behind the last.
            MsdaCase spread = c;
            spread.K = c.K + 4 * (c.L + 1);
            spread.value.assign(spread.B * spread.K * spread.M * spread.D, kNan);
            const int64_t row = c.M * c.D;
            for (int64_t l = 0; l < c.L; l++) {
                spread.starts[l] = c.starts[l] + 4 * (l + 1);
                const int64_t cells = c.shapes[2 * l] * c.shapes[2 * l + 1];
                for (int64_t b = 0; b < c.B; b++) {
                    std::memcpy(&spread.value[(b * spread.K + spread.starts[l]) * row], &c.value[(b * c.K + c.starts[l]) * row],
                                cells * row * sizeof(double));
                }
            }
            const std::vector<double> output = run(spread);
            EXPECT_TRUE(is_substantial(output));
            check(spread, output, expected);
        }
    }
}

/// Nothing but NaN, and every sample outside.
void check_all_outside(const Variant &variant) {
    for (const char *name : {"samples_4x4", "channels_7", "row_map", "one_cell"}) {
        MsdaCase c = make_case(awkward_workload(name), variant.type());
        c.value.assign(c.value.size(), kNan);
        const double outside[] = {-0.6, 1.6, kNan, 1e30, -kInf};
        for (size_t i = 0; i < c.locations.size(); i += 2) {
            // At least half a cell beyond the map, also where the map is one cell long.
            c.locations[i + i / 2 % 2] = outside[i / 2 % 5];
        }
        const std::vector<double> output = run(c);
        EXPECT_TRUE(same_bits(output, std::vector<double>(output.size(), 0.0))) << name;
    }
}

const bool registered = [] {
    constexpr Locations near = Locations::kNear;
    static const std::vector<MsdaWorkload> workloads = {
        {"channels_16", 2, 5, 2, 16, {{5, 7}, {3, 4}}, 2, near}, {"channels_7", 1, 5, 3, 7, {{5, 7}, {3, 4}}, 2, near},
        {"channels_32", 1, 5, 2, 32, {{4, 5}, {1, 9}}, 4, near}, {"channel_1", 2, 5, 2, 1, {{4, 5}, {9, 1}}, 2, near},
        {"channels_40", 1, 5, 1, 40, {{4, 5}}, 2, near},         {"single_cells", 1, 5, 2, 8, {{1, 1}, {1, 1}}, 4, near},
        {"rows", 1, 7, 2, 16, {{1, 6}, {1, 2}}, 4, near},        {"columns", 1, 7, 2, 16, {{6, 1}, {2, 1}}, 4, near},
        {"encoder_32", 1, 80, 2, 32, {{4, 5}, {3, 2}}, 4, near}, {"encoder_11", 2, 80, 1, 11, {{4, 5}, {3, 2}}, 4, near},
    };
    for (const MsdaWorkload &workload : workloads) {
        for_each_msda_forward_variant("Nonfinite", "touched_only_" + workload.name,
                                      [&](const Variant &v) { check_touched_only(workload, v.type()); });
        for_each_msda_forward_variant("Nonfinite", "others_unchanged_" + workload.name,
                                      [&](const Variant &v) { check_others_unchanged(workload, v.type()); });
    }
    for_each_msda_forward_variant("Nonfinite", "infinities", check_infinities);
    for_each_msda_forward_variant("Nonfinite", "unused_keys", [](const Variant &v) {
        check_unused_keys(v.type(), [](const MsdaCase &c, const std::vector<double> &output, const std::vector<double> &) {
            EXPECT_TRUE(matches_reference(c, output));
        });
    });
    for_each_msda_forward_variant("Nonfinite", "others_unchanged_unused_keys", [](const Variant &v) {
        check_unused_keys(v.type(), [](const MsdaCase &, const std::vector<double> &output, const std::vector<double> &clean) {
            EXPECT_TRUE(same_bits(output, clean));
        });
    });
    for_each_msda_forward_variant("Nonfinite", "weights", check_weights);
    for_each_msda_forward_variant("Nonfinite", "all_outside", check_all_outside);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
