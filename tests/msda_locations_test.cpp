// Locations on, beside and far beyond every boundary of a map.
#include <cfloat>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/msda_case.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

/// Normalised locations that fall on the edges and centres of cells, their neighbours in the type, and what has no place at
/// all.
std::vector<double> boundary_locations(int64_t extent, Type type) {
    std::vector<double> locations = {0.0,  -0.0, 1.0,   FLT_MIN,       -FLT_MIN,       0x1p-24, 0x1p-149,
                                     kNan, kInf, -kInf, largest(type), -largest(type), 1e30,    -1e30,
                                     2e9,  -2e9, 3e9};
    const auto n = static_cast<double>(extent);
    for (double x : {-1.5, -1.0, -0.75, -0.5, 0.0, 0.5, n - 1.5, n - 1.0, n - 0.75, n - 0.5, n, n + 0.5}) {
        const double u = nearest(type, (x + 0.5) / n);
        locations.push_back(u);
        for (int direction : {-1, 1}) {
            const double one = neighbour(type, u, direction), two = neighbour(type, one, direction);
            locations.insert(locations.end(), {one, two});
        }
    }
    return locations;
}

/// A map of random cells, sampled once for every pair of boundary locations.
MsdaCase boundary_case(const Level &level, int64_t channels, Type type) {
    const std::vector<double> us = boundary_locations(level.width, type), vs = boundary_locations(level.height, type);
    const auto queries = static_cast<int64_t>(us.size() * vs.size());
    MsdaCase c = make_case({"", 1, queries, 1, channels, {level}, 1, Locations::kWide}, type);
    double *to = c.locations.data();
    for (double u : us) {
        for (double v : vs) {
            *to++ = u;
            *to++ = v;
        }
    }
    return c;
}

const std::vector<Level> kMaps = {{1, 1}, {1, 2}, {3, 1}, {2, 2}, {8, 16}, {5, 7}, {13, 21}};

void check_boundaries(const Variant &variant) {
    for (const Level &level : kMaps) {
        for (int64_t channels : {1, 16, 19}) {
            SCOPED_TRACE(::testing::Message() << level.height << " x " << level.width << ", D = " << channels);
            const MsdaCase c = boundary_case(level, channels, variant.type());
            for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
                const std::vector<double> output = run(c, MsdaLayout::guarded(guard));
                EXPECT_TRUE(matches_reference(c, output));
                for (int64_t q = 0; q < c.Q; q++) {
                    const double u = c.locations[2 * q], v = c.locations[2 * q + 1];
                    if (!(std::fabs(u) < 1000 && std::fabs(v) < 1000)) {
                        EXPECT_EQ(output[q * channels], 0.0) << "at (" << u << ", " << v << ")";
                    }
                }
            }
        }
    }
}

/// Sizes that are powers of two leave nothing to round: a sample at a cell's centre is that cell.
void check_centres(const Variant &variant) {
    MsdaCase c = make_case({"", 1, 8 * 16, 1, 32, {{8, 16}}, 1, Locations::kWide}, variant.type());
    c.weights.assign(c.weights.size(), 1);
    for (int64_t q = 0; q < c.Q; q++) {
        c.locations[2 * q] = (static_cast<double>(q % 16) + 0.5) / 16;
        c.locations[2 * q + 1] = (static_cast<double>(q / 16) + 0.5) / 8;
    }
    EXPECT_TRUE(same_bits(run(c), c.value));
}

/// Whatever an outside sample holds, location or weight, the result is the one without it.
void check_outside_samples(const Variant &variant) {
    for (const char *name : {"samples_4x4", "samples_3x4", "samples_1x2", "samples_4x8", "channels_7", "channels_40"}) {
        SCOPED_TRACE(name);
        for (const MsdaWorkload &workload : {awkward_workload(name), crowded(awkward_workload(name))}) {
            MsdaCase clean = make_case(workload, variant.type());
            const int64_t samples = static_cast<int64_t>(clean.weights.size());
            for (int64_t s = 0; s < samples; s += 3) {
                clean.locations[2 * s] = 7;
            }
            const std::vector<double> expected = run(clean);
            EXPECT_TRUE(is_substantial(expected));

            const double bad[] = {kNan, kInf, -kInf, 1e30, -1e30, -kNan, FLT_MAX};
            MsdaCase c = clean;
            for (int64_t s = 0; s < samples; s += 3) {
                c.locations[2 * s + s % 2] = bad[s / 3 % 7];
            }
            EXPECT_TRUE(same_bits(run(c), expected)) << "locations";

            c = clean;
            for (int64_t s = 0; s < samples; s += 3) {
                c.weights[s] = bad[s / 3 % 7];
            }
            EXPECT_TRUE(same_bits(run(c), expected)) << "weights";
        }
    }
}

const bool registered = [] {
    for_each_msda_forward_variant("Locations", "boundaries", check_boundaries);
    for_each_msda_forward_variant("Locations", "cell_centres", check_centres);
    for_each_msda_forward_variant("Locations", "outside_samples", check_outside_samples);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
