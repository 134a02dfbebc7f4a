// MSDA, forward and backward, for locations on, beside and far beyond every boundary of a map.
#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/checks.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

/// Normalised locations that fall on the edges and centres of cells, their neighbours in the type, and what has no place at
/// all.
std::vector<double> boundary_locations(int64_t extent, Type type) {
    const double most = largest(type), smallest = neighbour(type, 0, 1);
    std::vector<double> locations = {0.0,       -0.0, 1.0,  FLT_MIN, -FLT_MIN, 0x1p-24, 0x1p-149, smallest,
                                     -smallest, kNan, kInf, -kInf,   most,     -most,   1e30,     -1e30,
                                     2e9,       -2e9, 3e9,  60000,   -60000,   -3000};
    const auto n = static_cast<double>(extent);
    for (double x : {-1.5, -1.0, -0.75, -0.5, 0.0, 0.5, n - 1.5, n - 1.0, n - 0.75, n - 0.5, n, n + 0.5}) {
        const double u = nearest(type, (x + 0.5) / n);
        locations.push_back(u);
        for (int direction : {-1, 1}) {
            const double one = neighbour(type, u, direction);
            locations.insert(locations.end(), {one, neighbour(type, one, direction)});
        }
    }
    return rounded(type, locations);
}

/// A map of random cells, sampled once for every pair of boundary locations.
MsdaCase boundary_case(const Level &level, int64_t channels, Type type, Pass pass) {
    const std::vector<double> us = boundary_locations(level.width, type), vs = boundary_locations(level.height, type);
    MsdaCase c({"", 1, static_cast<int64_t>(us.size() * vs.size()), 1, channels, {level}, 1, Locations::kWide}, type, pass);
    double *to = c.in.locations.data();
    for (double u : us) {
        for (double v : vs) {
            *to++ = u;
            *to++ = v;
        }
    }
    return c;
}

void check_boundaries(Pass pass, Type type) {
    for (const Level &level : {Level{1, 1}, {1, 2}, {3, 1}, {2, 2}, {8, 16}, {5, 7}, {13, 21}}) {
        for (int64_t channels : {1, 16, 19}) {
            SCOPED_TRACE(::testing::Message() << level.height << " x " << level.width << ", D = " << channels);
            const MsdaCase c = boundary_case(level, channels, type, pass);
            const std::vector<Expected> expected = c.expected();
            for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
                const Outputs outputs = run(c, guarded(guard));
                EXPECT_TRUE(matches(c, outputs, expected));
                for (int64_t q = 0; q < c.in.Q; q++) {
                    const double u = c.in.locations[2 * q], v = c.in.locations[2 * q + 1];
                    if (std::fabs(u) < 1000 && std::fabs(v) < 1000) {
                        continue;
                    }
                    if (pass == Pass::kForward) {
                        EXPECT_EQ(outputs[0][q * channels], 0) << "at (" << u << ", " << v << ")";
                    } else {
                        EXPECT_TRUE(all_zero({{outputs[1][2 * q], outputs[1][2 * q + 1], outputs[2][q]}}))
                            << "at (" << u << ", " << v << ")";
                    }
                }
            }
        }
    }
}

/// Sizes that are powers of two leave nothing to round: a sample at a cell's centre is that cell, and of its gradient that cell
/// gets all.
void check_centres(Pass pass, Type type) {
    MsdaCase c({"", 1, 8 * 16, 1, 32, {{8, 16}}, 1, Locations::kWide}, type, pass);
    c.in.weights.assign(c.in.weights.size(), 1);
    for (int64_t q = 0; q < c.in.Q; q++) {
        c.in.locations[2 * q] = (static_cast<double>(q % 16) + 0.5) / 16;
        c.in.locations[2 * q + 1] = (static_cast<double>(q / 16) + 0.5) / 8;
    }
    EXPECT_TRUE(same_bits(run(c)[0], pass == Pass::kForward ? c.in.value : c.in.grad_output));
}

/// Whatever an outside sample holds, location or weight, and whatever comes from above to a query without any inside sample:
/// the results are those without it, and its own gradients are zero.
void check_outside_samples(Pass pass, Type type) {
    for (const char *name : {"samples_4x4", "samples_3x4", "samples_1x2", "samples_4x8", "channels_7", "channels_40"}) {
        SCOPED_TRACE(name);
        for (const MsdaWorkload &workload : {awkward_workload(name), crowded(awkward_workload(name))}) {
            MsdaCase clean(workload, type, pass);
            const int64_t samples = clean.samples(), per_row = clean.in.L * clean.in.P;
            const auto outside = [&](int64_t s) { return s % 3 == 0 || s / per_row % 5 == 0; };
            for (int64_t s = 0; s < samples; s++) {
                if (outside(s)) {
                    clean.in.locations[2 * s] = 7;
                }
            }
            const Outputs expected = run(clean);
            EXPECT_TRUE(matches(clean, expected));
            EXPECT_TRUE(is_substantial(expected, {pass == Pass::kForward ? 0.5 : 0.05, 0.25}));

            const double bad[] = {kNan, kInf, -kInf, largest(type), -largest(type), -kNan, 60000};
            const auto with = [&](auto &&spoil) {
                MsdaCase c = clean;
                for (int64_t s = 0; s < samples; s++) {
                    if (outside(s)) {
                        spoil(c.in, s, nearest(type, bad[s % 7]));
                    }
                }
                return run(c);
            };
            EXPECT_TRUE(same_bits(with([](auto &in, int64_t s, double x) { in.locations[2 * s + s % 2] = x; }), expected))
                << "locations";
            EXPECT_TRUE(same_bits(with([](auto &in, int64_t s, double x) { in.weights[s] = x; }), expected)) << "weights";
            if (pass == Pass::kBackward) {
                const Outputs outputs = with([&](auto &in, int64_t s, double x) {
                    const int64_t row = s / per_row;
                    if (row % 5 == 0) {
                        in.grad_output[row * in.D + s % in.D] = x;
                    }
                });
                EXPECT_TRUE(same_bits(outputs, expected)) << "grad_output";
            }
        }
    }
}

const bool registered = [] {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        const auto add = [&](const char *name, void (*check)(Pass, Type)) {
            for_each_variant<MsdaCase>(pass, "MsdaLocations", name, [=](const Variant &v) { check(pass, v.type()); });
        };
        add("boundaries", check_boundaries);
        add("cell_centres", check_centres);
        add("outside_samples", check_outside_samples);
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
