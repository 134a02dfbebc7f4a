// MSDA, forward and backward: whatever spatial_shapes and level_start_index say, nothing outside the tensors is touched, a key
// outside [0, K) is no cell, and levels that share cells add to the same gradients.
#include <cmath>

#include "tests/checks.h"
#include "tests/msda_case.h"
#include "tests/support/indices.h"

namespace deformkit::testing {
namespace {

/// Locations are drawn for the proper levels, and for each query a sample is aimed at a low and one at a high corner.
MsdaCase case_with(const Indices &indices, int64_t channels, Type type, Pass pass) {
    MsdaCase c({"", 2, 60, 2, channels, indexed_levels(), 4, Locations::kWide}, type, pass);
    c.in.shapes = indices.shapes;
    c.in.starts = indices.starts;
    for (int64_t row = 0; row < c.in.B * c.in.Q * c.in.M * c.in.L; row++) {
        const int64_t level = row % c.in.L;
        const auto height = static_cast<double>(indices.shapes[2 * level]);
        const auto width = static_cast<double>(indices.shapes[2 * level + 1]);
        double *uv = &c.in.locations[row * c.in.P * 2];
        uv[0] = (static_cast<double>(row % 7) + 0.7) / width;
        uv[1] = (static_cast<double>(row % 5) + 0.7) / height;
        uv[2] = 1 - uv[0];
        uv[3] = 1 - uv[1];
        // Where rows begin again at 0 if a 32 bit product wraps.
        uv[4] = uv[0];
        uv[5] = (std::floor(0x1p32 / (width == 0 ? 1 : width)) + 0.6) / height;
    }
    return c;
}

void check(Pass pass, const Indices &indices, bool fits_32_bits, Type type) {
    for (int64_t channels : {5, 16, 32}) {
        const MsdaCase c = case_with(indices, channels, type, pass);
        const std::vector<Expected> expected = fits_32_bits ? c.expected() : std::vector<Expected>();
        for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
            for (int bits : {64, 32}) {
                if (bits == 32 && !fits_32_bits) {
                    continue;
                }
                SCOPED_TRACE(::testing::Message() << "D = " << channels << ", int" << bits);
                Layouts layouts = guarded(guard);
                layouts.index_bits = bits;
                const Outputs outputs = run(c, layouts);
                if (fits_32_bits) {
                    EXPECT_TRUE(matches(c, outputs, expected));
                }
            }
        }
    }
}

/// Levels that are the same cells: their gradients come together as if all samples were on one level.
void check_shared_cells(Type type) {
    for (int64_t queries : {9, 150}) {
        for (int64_t channels : {7, 32}) {
            MsdaCase c({"", 2, queries, 2, channels, {{5, 6}, {5, 6}, {5, 6}, {5, 6}}, 2, Locations::kWide}, type,
                       Pass::kBackward);
            c.in.starts = {30, 30, 30, 30};
            const Outputs shared = run(c);
            EXPECT_TRUE(matches(c, shared));
            MsdaCase one_level = c;
            one_level.in.L = 1, one_level.in.P = c.in.L * c.in.P;
            one_level.in.shapes = {5, 6}, one_level.in.starts = {30};
            const Outputs together = run(one_level);
            EXPECT_TRUE(matches(one_level, together));
            EXPECT_TRUE(same_bits({together[1], together[2]}, {shared[1], shared[2]}));
            EXPECT_GT(std::count_if(shared[0].begin(), shared[0].end(), [](double x) { return x != 0; }), 400);
        }
    }
}

const bool registered = [] {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const auto &[group, table] :
             {std::pair("unusual_", &unusual_indices()), {"garbage_", &garbage_indices()}, {"huge_", &huge_indices()}}) {
            const bool fits_32_bits = table != &huge_indices();
            for (const Indices &indices : *table) {
                for_each_variant<MsdaCase>(pass, "MsdaIndices", group + indices.name,
                                           [=, &indices](const Variant &v) { check(pass, indices, fits_32_bits, v.type()); });
            }
        }
    }
    for_each_variant<MsdaCase>(Pass::kBackward, "MsdaIndices", "shared_cells",
                               [](const Variant &v) { check_shared_cells(v.type()); });
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
