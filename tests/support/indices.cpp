#include "tests/support/indices.h"

#include <cstring>
#include <limits>

namespace deformkit::testing {

namespace {

constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max(), kMin32 = std::numeric_limits<int32_t>::min();
constexpr int64_t kMax64 = std::numeric_limits<int64_t>::max(), kMin64 = std::numeric_limits<int64_t>::min();

int64_t float_bits(float value) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

// Static initialisers of tests ask for the tables: these cannot be globals.
const std::vector<int64_t> &shapes() {
    static const std::vector<int64_t> shapes = {4, 6, 3, 3, 2, 5};
    return shapes;
}

const std::vector<int64_t> &starts() {
    static const std::vector<int64_t> starts = {0, 24, 33};
    return starts;
}

}  // namespace

const std::vector<Level> &indexed_levels() {
    static const std::vector<Level> levels = {{4, 6}, {3, 3}, {2, 5}};
    return levels;
}

const std::vector<Indices> &unusual_indices() {
    const std::vector<int64_t> &kShapes = shapes(), &kStarts = starts();
    static const std::vector<Indices> table = {
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
    return table;
}

const std::vector<Indices> &garbage_indices() {
    const std::vector<int64_t> &kShapes = shapes(), &kStarts = starts();
    static const std::vector<Indices> table = {
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
    return table;
}

const std::vector<Indices> &huge_indices() {
    const std::vector<int64_t> &kShapes = shapes(), &kStarts = starts();
    static const std::vector<Indices> table = {
        {"start_2_to_40", kShapes, {int64_t{1} << 40, -(int64_t{1} << 40), (int64_t{1} << 32) + 1}},
        {"start_extreme", kShapes, {kMax64, kMin64, kMax64 - 10}},
        {"extents_2_to_40", {int64_t{1} << 40, 6, 3, int64_t{1} << 40, int64_t{1} << 32, (int64_t{1} << 32) + 5}, kStarts},
        {"extents_max", {kMax64, kMax64, kMax64, 1, 1, kMax64}, kStarts},
        {"extents_min", {kMin64, kMin64, kMin64, 1, 1, kMin64}, kStarts},
        {"everything_max", std::vector<int64_t>(6, kMax64), {kMax64, kMax64, kMax64}},
        {"everything_min", std::vector<int64_t>(6, kMin64), {kMin64, kMin64, kMin64}},
    };
    return table;
}

}  // namespace deformkit::testing
