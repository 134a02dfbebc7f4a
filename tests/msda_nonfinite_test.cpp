// MSDA, forward and backward, with NaN and infinities among the inputs: they reach the results that depend on them, and no
// others.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "tests/checks.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

MsdaCase tie_free_case(const MsdaWorkload &workload, Type type, Pass pass) {
    MsdaCase c(workload, type, pass);
    c.avoid_ties();
    return c;
}

/// An infinite weight times a corner off the map is NaN in a forward: there, any NaN will do.
bool only_nan(const MsdaCase &c, const std::vector<double> &input) {
    return c.pass() == Pass::kForward && &input == &c.in.weights;
}

/// One bad number at a time, in so many elements of one input: of every channel, head and level.
void plant(const MsdaWorkload &workload, const std::string &input, Type type, Pass pass) {
    MsdaCase c = tie_free_case(workload, type, pass);
    const Outputs clean = run(c);
    EXPECT_TRUE(matches(c, clean));
    EXPECT_EQ(count_nonfinite(clean), 0);
    Problem::Numbers numbers = c.numbers();
    std::vector<double> &in = *std::find_if(numbers.begin(), numbers.end(), [&](auto &n) { return n.first == input; })->second;
    const bool locations = &in == &c.in.locations;
    const auto size = static_cast<int64_t>(in.size()), places = static_cast<int64_t>(pass == Pass::kForward ? 400 : 97);
    int64_t reached = 0, planted = 0, total = 0;
    for (const std::vector<double> &output : clean) {
        total += static_cast<int64_t>(output.size());
    }
    for (int64_t at = 0; at < size; at += std::max<int64_t>(1, size / places) | 1, planted++) {
        const double before = in[at], bad = only_nan(c, in) ? kNan : std::array{kNan, kInf, -kInf}[planted % 3];
        in[at] = bad;
        SCOPED_TRACE(::testing::Message() << bad << " in element " << at << " of " << size);
        const Outputs outputs = run(c);
        EXPECT_TRUE(matches(c, outputs));
        if (!locations) {
            EXPECT_TRUE(others_unchanged(outputs, clean));
        }
        if (pass == Pass::kBackward && &in == &c.in.value) {
            EXPECT_TRUE(same_bits({outputs[0], {}, {}}, {clean[0], {}, {}})) << "grad_value does not depend on value";
        }
        if (pass == Pass::kBackward && &in == &c.in.weights) {
            EXPECT_TRUE(same_bits(outputs[2], clean[2])) << "grad_attention_weights does not depend on them";
        }
        if (::testing::Test::HasFailure()) {
            return;
        }
        reached += count_nonfinite(outputs);
        in[at] = before;
    }
    EXPECT_GE(planted, 10);
    EXPECT_LT(reached, planted * total / 2);
    if (locations) {
        EXPECT_EQ(reached, 0) << "a sample without a place is outside";
    } else {
        EXPECT_GT(reached, 0);
    }
}

/// Many at once, where infinities of one sign give infinities and of both signs NaN.
void check_many(Pass pass, Type type) {
    for (const MsdaWorkload &workload :
         {awkward_workload("samples_3x4"), crowded(awkward_workload("samples_3x4")), crowded(awkward_workload("channels_7"))}) {
        for (size_t input = 0; input < (pass == Pass::kForward ? 3 : 4); input++) {
            MsdaCase c = tie_free_case(workload, type, pass);
            std::vector<double> &numbers = *c.numbers()[input].second;
            if (&numbers == &c.in.locations) {
                continue;
            }
            std::mt19937 random(1);
            for (double &number : numbers) {
                if (random() % 64 == 0) {
                    number = only_nan(c, numbers) ? kNan : std::array{kInf, -kInf, kNan}[random() % 5 / 2];
                }
            }
            const Outputs outputs = run(c);
            EXPECT_TRUE(matches(c, outputs));
            int64_t infinite = 0, nan = 0, finite = 0;
            for (const std::vector<double> &output : outputs) {
                for (double x : output) {
                    ++(std::isnan(x) ? nan : std::isinf(x) ? infinite : finite);
                }
            }
            EXPECT_TRUE((infinite > 0 || only_nan(c, numbers)) && nan > 0 && finite > 0)
                << infinite << ", " << nan << ", " << finite;
        }
    }
}

/// A map of one row or column, or of a single cell, has corners off the map around every sample.
void check_off_map_corners(Pass pass, Type type) {
    for (const Level &level : {Level{1, 1}, {1, 6}, {6, 1}}) {
        MsdaCase c = tie_free_case({"", 1, 30, 2, 11, {level, {2, 3}, level}, 2, Locations::kWide}, type, pass);
        c.in.weights = rounded(type, std::vector<double>(c.in.weights.size(), 0.25));
        const auto on_level = [&](int64_t s) { return s / c.in.P % 3 == 1; };
        // What a kernel might read in place of an off-map corner: the cells before, behind and in the level between.
        const int64_t cells = level.height * level.width, row = c.in.M * c.in.D;
        if (pass == Pass::kForward) {
            for (int64_t s = 0; s < c.samples(); s++) {
                if (on_level(s)) {
                    c.in.locations[2 * s] = 7;
                }
            }
        }
        const Outputs clean = run(c);
        EXPECT_TRUE(matches(c, clean));
        for (int64_t i = 0; i < 6 * row; i++) {
            c.in.value[cells * row + i] = std::array{kNan, kInf, -kInf}[i % 3];
        }
        const Outputs outputs = run(c);
        EXPECT_TRUE(matches(c, outputs));
        if (pass == Pass::kForward) {
            EXPECT_TRUE(same_bits(outputs, clean));
            continue;
        }
        for (int64_t s = 0; s < c.samples(); s++) {
            const auto of_sample = [&](const Outputs &g) { return std::vector<double>{g[2][s], g[1][2 * s], g[1][2 * s + 1]}; };
            if (!on_level(s)) {
                EXPECT_TRUE(same_bits(of_sample(outputs), of_sample(clean))) << "sample " << s;
            }
        }
    }
}

/// Keys between and behind the levels belong to no map: what they hold is not used, and their gradient is zero.
void check_unused_keys(Pass pass, Type type) {
    for (int64_t channels : {8, 11, 32}) {
        for (int64_t queries : {5, 200}) {
            const MsdaCase c =
                tie_free_case({"", 2, queries, 2, channels, {{3, 4}, {2, 5}, {1, 3}}, 4, Locations::kNear}, type, pass);
            Outputs expected = run(c);
            // The same maps with 4 keys of NaN before each and behind the last.
            MsdaCase spread = c;
            spread.in.K = c.in.K + 4 * (c.in.L + 1);
            const int64_t row = c.in.M * c.in.D;
            const auto spread_out = [&](const std::vector<double> &maps, double between) {
                std::vector<double> result(c.in.B * spread.in.K * row, between);
                for (int64_t i = 0; i < c.in.B * c.in.L; i++) {
                    const int64_t b = i / c.in.L, l = i % c.in.L, from = (b * c.in.K + c.in.starts[l]) * row;
                    const int64_t count = c.in.shapes[2 * l] * c.in.shapes[2 * l + 1] * row;
                    std::copy_n(&maps[from], count, &result[(b * spread.in.K + spread.in.starts[l]) * row]);
                }
                return result;
            };
            for (int64_t l = 0; l < c.in.L; l++) {
                spread.in.starts[l] = c.in.starts[l] + 4 * (l + 1);
            }
            spread.in.value = spread_out(c.in.value, kNan);
            if (pass == Pass::kBackward) {
                expected[0] = spread_out(expected[0], 0);
            }
            const Outputs outputs = run(spread);
            EXPECT_TRUE(is_substantial(outputs, {pass == Pass::kForward ? 0.5 : 0.05, 0.25}));
            EXPECT_TRUE(matches(spread, outputs));
            EXPECT_TRUE(same_bits(outputs, expected));
        }
    }
}

/// Nothing but NaN in all other inputs, and every sample outside.
void check_all_outside(Pass pass, Type type) {
    for (const char *name : {"samples_4x4", "channels_7", "row_map", "one_cell"}) {
        MsdaCase c(awkward_workload(name), type, pass);
        for (auto *input : {&c.in.value, &c.in.weights, &c.in.grad_output}) {
            input->assign(input->size(), kNan);
        }
        const double outside[] = {-0.75, 1.75, kNan, 60000, -kInf, 1e30};
        for (size_t i = 0; i < c.in.locations.size(); i += 2) {
            // More than half a cell beyond the map, also where the map is one cell long.
            c.in.locations[i + i / 2 % 2] = nearest(type, outside[i / 2 % 6]);
        }
        EXPECT_TRUE(all_zero(run(c))) << name;
    }
}

void check_nan_threads(Pass pass, Type type) {
    for (const MsdaWorkload &workload : msda_awkward_workloads()) {
        for (const MsdaWorkload &w : {workload, crowded(workload)}) {
            SCOPED_TRACE(w.name);
            const MsdaCase c(w, type, pass);
            if (!c.is_trivial()) {
                check_nans(c);
            }
        }
    }
}

const bool registered = [] {
    constexpr Locations near = Locations::kNear;
    const std::vector<MsdaWorkload> workloads = {
        {"channels_16", 2, 5, 2, 16, {{5, 7}, {3, 4}}, 2, near}, {"channels_7", 1, 5, 3, 7, {{5, 7}, {3, 4}}, 2, near},
        {"channels_32", 1, 5, 2, 32, {{4, 5}, {1, 9}}, 4, near}, {"channel_1", 2, 5, 2, 1, {{4, 5}, {9, 1}}, 2, near},
        {"channels_40", 1, 5, 1, 40, {{4, 5}}, 2, near},         {"single_cells", 1, 5, 2, 8, {{1, 1}, {1, 1}}, 4, near},
        {"rows", 1, 7, 2, 16, {{1, 6}, {1, 2}}, 4, near},        {"columns", 1, 7, 2, 16, {{6, 1}, {2, 1}}, 4, near},
        {"encoder_32", 1, 80, 2, 32, {{4, 5}, {3, 2}}, 4, near}, {"encoder_11", 2, 80, 1, 11, {{4, 5}, {3, 2}}, 4, near},
    };
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const MsdaWorkload &w : workloads) {
            for (const std::string input : {"value", "sampling_locations", "attention_weights", "grad_output"}) {
                if (pass == Pass::kBackward || input != "grad_output") {
                    for_each_variant<MsdaCase>(pass, "MsdaNonfinite", input + "_" + w.name,
                                               [=](const Variant &v) { plant(w, input, v.type(), pass); });
                }
            }
        }
        const auto add = [&](const char *name, void (*check)(Pass, Type)) {
            for_each_variant<MsdaCase>(pass, "MsdaNonfinite", name, [=](const Variant &v) { check(pass, v.type()); });
        };
        add("nans", check_nan_threads);
        add("many", check_many);
        add("off_map_corners", check_off_map_corners);
        add("unused_keys", check_unused_keys);
        add("all_outside", check_all_outside);
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
