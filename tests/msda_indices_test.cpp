// Whatever spatial_shapes and level_start_index say, nothing outside the tensors is touched, and a key outside [0, K) is no
// cell.
#include <cstring>
#include <limits>

#include "msda_case.h"
#include "variants.h"

namespace deformkit::testing {
namespace {

constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max(), kMin32 = std::numeric_limits<int32_t>::min();
constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max(), kMin64 = std::numeric_limits<int64_t>::min();

int64_t float_bits(float value) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

struct Indices {
    std::string name;
    std::vector<int64_t> shapes, starts;
};

/// Three levels of 4 x 6, 3 x 3 and 2 x 5 cells in 43 keys, before something happens to them.
const std::vector<int64_t> kShapes = {4, 6, 3, 3, 2, 5}, kStarts = {0, 24, 33};

/// Unusual, but with a plain meaning.
const std::vector<Indices> kUnusual = {
    {"in_order", kShapes, kStarts},
    {"out_of_order", {2, 5, 4, 6, 3, 3}, {33, 0, 24}},
    {"reversed", {3, 3, 2, 5, 4, 6}, {0, 9, 19}},
    {"overlapping", kShapes, {0, 10, 15}},
    {"all_the_same", kShapes, {7, 7, 7}},
    {"transposed", {6, 4, 3, 3, 5, 2}, kStarts},
    {"first_key_before", kShapes, {-3, 24, 33}},
    {"one_row_before", kShapes, {-6, 21, 31}},
    {"last_level_beyond", kShapes, {0, 24, 38}},
    {"last_cell_beyond", kShapes, {20, 35, 34}},
    {"last_key_only", kShapes, {42, 42, 42}},
    {"first_key_only", kShapes, {-23, -8, -9}},
    {"just_beyond", kShapes, {43, 43, 43}},
    {"just_before", kShapes, {-24, -9, -10}},
    {"larger_than_the_tensor", {40, 60, 30, 30, 20, 50}, {0, 0, 0}},
    {"larger_and_centred", {9, 9, 21, 21, 101, 101}, {-20, -200, -5000}},
    {"no_rows", {0, 6, 3, 3, 0, 5}, kStarts},
    {"no_columns", {4, 0, 3, 3, 2, 0}, kStarts},
    {"negative_rows", {-4, 6, 3, 3, -1, 5}, kStarts},
    {"negative_columns", {4, -6, 3, -1, 2, 5}, kStarts},
    {"negative_both", {-4, -6, -1, -1, -2, -5}, kStarts},
};

/// Nonsense that fits int32. Products and sums of these numbers do not.
const std::vector<Indices> kGarbage = {
    {"start_max", kShapes, {kMax32, kMax32 - 3, kMax32 - 23}},
    {"start_min", kShapes, {kMin32, kMin32 + 3, kMin32 + 23}},
    {"extents_max", {kMax32, kMax32, kMax32, 1, 1, kMax32}, kStarts},
    {"extents_min", {kMin32, kMin32, kMin32, 1, 1, kMin32}, kStarts},
    {"product_is_2_to_32", {65536, 65536, 32768, 65536, 65536, 32768}, kStarts},
    {"rows_wrap_at_2_to_32", {100000, 65536, 131072, 32768, 16777216, 256}, {0, 0, 5}},
    {"columns_max", {4, kMax32, 3, kMax32 - 1, 2, kMax32}, {0, 24, -kMax32}},
    {"rows_max", {kMax32, 6, kMax32 - 1, 3, kMax32, 5}, {0, 24, kMin32}},
    {"float_bits",
     {float_bits(1), float_bits(100), float_bits(-1), float_bits(1e-3f), float_bits(0.5f), float_bits(-7)},
     {float_bits(0), float_bits(1), float_bits(-1)}},
};

/// Nonsense that does not fit int32.
const std::vector<Indices> kHuge = {
    {"start_2_to_40", kShapes, {int64_t{1} << 40, -(int64_t{1} << 40), (int64_t{1} << 32) + 1}},
    {"start_extreme", kShapes, {kMax64, kMin64, kMax64 - 10}},
    {"extents_2_to_40", {int64_t{1} << 40, 6, 3, int64_t{1} << 40, int64_t{1} << 32, (int64_t{1} << 32) + 5}, kStarts},
    {"extents_max", {kMax64, kMax64, kMax64, 1, 1, kMax64}, kStarts},
    {"extents_min", {kMin64, kMin64, kMin64, 1, 1, kMin64}, kStarts},
    {"everything_max", std::vector<int64_t>(6, kMax64), {kMax64, kMax64, kMax64}},
    {"everything_min", std::vector<int64_t>(6, kMin64), {kMin64, kMin64, kMin64}},
};

MsdaCase case_with(const Indices &indices, int64_t channels, Type type) {
    // Locations are drawn for the proper levels, and for each query a sample is aimed at a low and one at a high corner.
    MsdaCase c = make_case({"", 2, 60, 2, channels, {{4, 6}, {3, 3}, {2, 5}}, 4, Locations::kWide}, type);
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
    for (const auto &[group, table] : {std::pair("unusual_", &kUnusual), {"garbage_", &kGarbage}, {"huge_", &kHuge}}) {
        const bool against_reference = table != &kHuge;
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
