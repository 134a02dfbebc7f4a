// Whatever spatial_shapes and level_start_index say, nothing outside the tensors is touched, and a key outside [0, K) is no
// cell.
#include "tests/msda_case.h"
#include "tests/support/indices.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

MsdaCase case_with(const Indices &indices, int64_t channels, Type type) {
    // Locations are drawn for the proper levels, and for each query a sample is aimed at a low and one at a high corner.
    MsdaCase c = make_case({"", 2, 60, 2, channels, indexed_levels(), 4, Locations::kWide}, type);
    c.shapes = indices.shapes;
    c.starts = indices.starts;
    for (int64_t row = 0; row < c.B * c.Q * c.M * c.L; row++) {
        const int64_t level = row % c.L, height = c.shapes[2 * level], width = c.shapes[2 * level + 1];
        double *uv = &c.locations[row * c.P * 2];
        uv[0] = (static_cast<double>(row % 7) + 0.7) / static_cast<double>(width);
        uv[1] = (static_cast<double>(row % 5) + 0.7) / static_cast<double>(height);
        uv[2] = 1 - uv[0];
        uv[3] = 1 - uv[1];
        // Where rows begin again at 0 if a 32 bit product wraps.
        uv[5] = (static_cast<double>((int64_t{1} << 32) / (width == 0 ? 1 : width)) + 0.6) / static_cast<double>(height);
        uv[4] = uv[0];
    }
    return c;
}

void check(const Indices &indices, bool against_reference, Type type) {
    for (int64_t channels : {5, 16, 32}) {
        const MsdaCase c = case_with(indices, channels, type);
        for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
            for (int bits : {64, 32}) {
                if (bits == 32 && !against_reference) {
                    continue;  // does not fit
                }
                SCOPED_TRACE(::testing::Message() << "D = " << channels << ", int" << bits);
                MsdaLayout layout = MsdaLayout::guarded(guard);
                layout.index_bits = bits;
                const std::vector<double> output = run(c, layout);
                if (against_reference) {
                    EXPECT_TRUE(matches_reference(c, output));
                }
            }
        }
    }
}

const bool registered = [] {
    for (const auto &[group, table] :
         {std::pair("unusual_", &unusual_indices()), {"garbage_", &garbage_indices()}, {"huge_", &huge_indices()}}) {
        const bool against_reference = table != &huge_indices();
        for (const Indices &indices : *table) {
            for_each_msda_forward_variant("Indices", group + indices.name, [&indices, against_reference](const Variant &v) {
                check(indices, against_reference, v.type());
            });
        }
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
