// MSDA backward for locations on, beside and far beyond every boundary of a map.
#include <cfloat>
#include <cmath>
#include <limits>

#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

/// Normalised locations that fall on the edges and centres of cells, their neighbours, and what has no place at all.
std::vector<double> boundary_locations(int64_t extent, Type type) {
    const double most = largest(type), smallest = neighbour(type, 0, 1);
    std::vector<double> locations = {0.0,   -0.0, 1.0,   smallest, -smallest, kNan,  kInf,
                                     -kInf, most, -most, 60000,    -60000,    -3000, nearest(type, 2e9)};
    const auto n = static_cast<double>(extent);
    for (double x : {-1.5, -1.0, -0.75, -0.5, 0.0, 0.5, n - 1.5, n - 1.0, n - 0.75, n - 0.5, n, n + 0.5}) {
        const double u = nearest(type, (x + 0.5) / n);
        locations.push_back(u);
        for (int direction : {-1, 1}) {
            const double one = neighbour(type, u, direction);
            locations.insert(locations.end(), {one, neighbour(type, one, direction)});
        }
    }
    for (double &u : locations) {
        u = nearest(type, u);
    }
    return locations;
}

/// A map of random cells, sampled once for every pair of boundary locations.
MsdaBackwardCase boundary_case(const Level &level, int64_t channels, Type type) {
    const std::vector<double> us = boundary_locations(level.width, type), vs = boundary_locations(level.height, type);
    const auto queries = static_cast<int64_t>(us.size() * vs.size());
    MsdaBackwardCase c = make_backward_case({"", 1, queries, 1, channels, {level}, 1, Locations::kWide}, type);
    double *to = c.locations.data();
    for (double u : us) {
        for (double v : vs) {
            *to++ = u;
            *to++ = v;
        }
    }
    return c;
}

void check_boundaries(Type type) {
    for (const Level &level : {Level{1, 1}, {1, 2}, {3, 1}, {2, 2}, {8, 16}, {5, 7}, {13, 21}}) {
        for (int64_t channels : {1, 16, 19}) {
            SCOPED_TRACE(::testing::Message() << level.height << " x " << level.width << ", D = " << channels);
            const MsdaBackwardCase c = boundary_case(level, channels, type);
            for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
                const MsdaGradients gradients = run(c, MsdaBackwardLayout::guarded(guard));
                EXPECT_TRUE(matches_reference(c, gradients));
                for (int64_t q = 0; q < c.Q; q++) {
                    const double u = c.locations[2 * q], v = c.locations[2 * q + 1];
                    if (!(std::fabs(u) < 1000 && std::fabs(v) < 1000)) {
                        EXPECT_TRUE(gradients.weights[q] == 0 && gradients.locations[2 * q] == 0 &&
                                    gradients.locations[2 * q + 1] == 0)
                            << "at (" << u << ", " << v << ")";
                    }
                }
            }
        }
    }
}

/// Sizes that are powers of two leave nothing to round: of a sample at a cell's centre, that cell gets all.
void check_centres(Type type) {
    MsdaBackwardCase c = make_backward_case({"", 1, 8 * 16, 1, 32, {{8, 16}}, 1, Locations::kWide}, type);
    for (int64_t q = 0; q < c.Q; q++) {
        c.locations[2 * q] = (static_cast<double>(q % 16) + 0.5) / 16;
        c.locations[2 * q + 1] = (static_cast<double>(q / 16) + 0.5) / 8;
        c.weights[q] = 1;
    }
    EXPECT_TRUE(same_bits(run(c).value, c.grad_output));
}

/// Whatever an outside sample holds, location or weight, and whatever comes from above to a query without any inside sample:
/// the gradients are those without it, and its own are zero.
void check_outside_samples(Type type) {
    for (const char *name : {"samples_4x4", "samples_3x4", "samples_1x2", "samples_4x8", "channels_7", "channels_40"}) {
        SCOPED_TRACE(name);
        for (const MsdaWorkload &workload : {awkward_workload(name), crowded(awkward_workload(name))}) {
            MsdaBackwardCase clean = make_backward_case(workload, type);
            const int64_t samples = clean.samples(), per_row = clean.L * clean.P;
            const auto outside = [&](int64_t s) { return s % 3 == 0 || s / per_row % 5 == 0; };
            for (int64_t s = 0; s < samples; s++) {
                if (outside(s)) {
                    clean.locations[2 * s] = 7;
                }
            }
            const MsdaGradients expected = run(clean);
            EXPECT_TRUE(matches_reference(clean, expected));
            EXPECT_TRUE(is_substantial(expected, 0.05, 0.25));

            const double bad[] = {kNan, kInf, -kInf, largest(type), -largest(type), -kNan, 60000};
            const auto with = [&](auto &&spoil) {
                MsdaBackwardCase c = clean;
                for (int64_t s = 0; s < samples; s++) {
                    if (outside(s)) {
                        spoil(c, s, nearest(type, bad[s % 7]));
                    }
                }
                return run(c);
            };
            EXPECT_TRUE(same_bits(with([](auto &c, int64_t s, double x) { c.locations[2 * s + s % 2] = x; }), expected))
                << "locations";
            EXPECT_TRUE(same_bits(with([](auto &c, int64_t s, double x) { c.weights[s] = x; }), expected)) << "weights";
            EXPECT_TRUE(same_bits(with([&](auto &c, int64_t s, double x) {
                                      const int64_t row = s / per_row;
                                      if (row % 5 == 0) {
                                          c.grad_output[row * c.D + s % c.D] = x;
                                      }
                                  }),
                                  expected))
                << "grad_output";
        }
    }
}

const bool registered = [] {
    const auto add = [](const char *name, void (*check)(Type)) {
        for_each_msda_backward_variant("Locations", name, [=](const Variant &, Type type) { check(type); });
    };
    add("boundaries", check_boundaries);
    add("cell_centres", check_centres);
    add("outside_samples", check_outside_samples);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
