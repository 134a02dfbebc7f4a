// MSDA backward: whatever spatial_shapes and level_start_index say, nothing outside the tensors is touched, a key outside [0,
// K) is no cell, and levels that share cells add to the same gradients.
#include <cmath>

#include "tests/msda_backward_case.h"
#include "tests/support/indices.h"

namespace deformkit::testing {
namespace {

/// Locations are drawn for the proper levels, and for each query a sample is aimed at a low and one at a high corner.
MsdaBackwardCase case_with(const Indices &indices, int64_t channels, Type type) {
    MsdaBackwardCase c = make_backward_case({"", 2, 60, 2, channels, indexed_levels(), 4, Locations::kWide}, type);
    c.shapes = indices.shapes;
    c.starts = indices.starts;
    for (int64_t row = 0; row < c.B * c.Q * c.M * c.L; row++) {
        const int64_t level = row % c.L;
        const auto height = static_cast<double>(c.shapes[2 * level]), width = static_cast<double>(c.shapes[2 * level + 1]);
        double *uv = &c.locations[row * c.P * 2];
        uv[0] = (static_cast<double>(row % 7) + 0.7) / width;
        uv[1] = (static_cast<double>(row % 5) + 0.7) / height;
        uv[2] = 1 - uv[0];
        uv[3] = 1 - uv[1];
        // Where rows begin again at 0 if a 32 bit product wraps.
        uv[4] = uv[0];
        uv[5] = (std::floor(0x1p32 / (width == 0 ? 1 : width)) + 0.6) / height;
    }
    c.locations = rounded(type, c.locations);
    return c;
}

void check(const Indices &indices, bool fits_32_bits, Type type) {
    for (int64_t channels : {5, 16, 32}) {
        const MsdaBackwardCase c = case_with(indices, channels, type);
        for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
            MsdaBackwardLayout layout = MsdaBackwardLayout::guarded(guard);
            layout.index_bits = fits_32_bits && guard == Guard::kBefore ? 32 : 64;
            SCOPED_TRACE(::testing::Message() << "D = " << channels << ", int" << layout.index_bits);
            const MsdaGradients gradients = run(c, layout);
            if (fits_32_bits) {
                EXPECT_TRUE(matches_reference(c, gradients));
            }
        }
    }
}

/// Levels that are the same cells: their gradients come together as if all samples were on one level.
void check_shared_cells(Type type) {
    for (int64_t queries : {9, 150}) {
        for (int64_t channels : {7, 32}) {
            MsdaBackwardCase c =
                make_backward_case({"", 2, queries, 2, channels, {{5, 6}, {5, 6}, {5, 6}, {5, 6}}, 2, Locations::kWide}, type);
            c.starts = {30, 30, 30, 30};
            const MsdaGradients shared = run(c);
            EXPECT_TRUE(matches_reference(c, shared));
            MsdaBackwardCase one_level = c;
            one_level.L = 1, one_level.P = c.L * c.P;
            one_level.shapes = {5, 6}, one_level.starts = {30};
            const MsdaGradients together = run(one_level);
            EXPECT_TRUE(matches_reference(one_level, together));
            EXPECT_TRUE(same_bits(together.locations, shared.locations));
            EXPECT_TRUE(same_bits(together.weights, shared.weights));
            EXPECT_GT(std::count_if(shared.value.begin(), shared.value.end(), [](double x) { return x != 0; }), 400);
        }
    }
}

const bool registered = [] {
    for (const auto &[group, table] :
         {std::pair("unusual_", &unusual_indices()), {"garbage_", &garbage_indices()}, {"huge_", &huge_indices()}}) {
        const bool fits_32_bits = table != &huge_indices();
        for (const Indices &indices : *table) {
            for_each_msda_backward_variant(
                "Indices", group + indices.name,
                [&indices, fits_32_bits](const Variant &, Type type) { check(indices, fits_32_bits, type); });
        }
    }
    for_each_msda_backward_variant("Indices", "shared_cells", [](const Variant &, Type type) { check_shared_cells(type); });
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
