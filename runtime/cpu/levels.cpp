#include "runtime/cpu/levels.h"

#include <algorithm>
#include <limits>

#include "runtime/system/log.h"

namespace deformkit {

LevelTable make_level_table(const Tensor &spatial_shapes, const Tensor &level_start_index, int64_t heads, int64_t points,
                            int64_t num_keys) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
    const int64_t levels = spatial_shapes.shape[0];
    LevelTable table;
    const int64_t samples = levels * points;
    table.columns = heads * samples;
    table.rows.resize(3 * table.columns);
    for (int64_t l = 0; l < levels; l++) {
        int64_t height = read_index(spatial_shapes, l, 0);
        int64_t width = read_index(spatial_shapes, l, 1);
        int64_t first = read_index(level_start_index, l);
        // Extents are at most 2^31 - 1 here, so that the product below fits.
        const bool representable = std::max(height, width) <= kMax && first >= -kMax && first <= kMax;
        if (height <= 0 || width <= 0 || !representable) {
            if (height != 0 && width != 0) {
                log("level %lld: size (%lld, %lld) from key %lld makes no sense: it is taken to be empty",
                    static_cast<long long>(l), static_cast<long long>(height), static_cast<long long>(width),
                    static_cast<long long>(first));
            }
            height = width = kNoExtent;
            first = 0;
        } else if (first < 0 || first + height * width > num_keys) {
            log("level %lld: keys %lld to %lld do not all lie in value's %lld: those outside count as zero",
                static_cast<long long>(l), static_cast<long long>(first), static_cast<long long>(first + height * width),
                static_cast<long long>(num_keys));
            table.careful = true;
        }
        for (int64_t p = 0; p < points; p++) {
            const int64_t column = l * points + p;
            table.rows[column] = static_cast<int32_t>(width);
            table.rows[table.columns + column] = static_cast<int32_t>(height);
            table.rows[2 * table.columns + column] = static_cast<int32_t>(first);
        }
    }
    for (int row = 0; row < 3; row++) {
        const auto first_head = table.rows.begin() + row * table.columns;
        for (int64_t m = 1; m < heads; m++) {
            std::copy_n(first_head, samples, first_head + m * samples);
        }
    }
    return table;
}

LevelTable columns_of(const LevelTable &table, int64_t first, int64_t count, int64_t first_key) {
    LevelTable part;
    part.columns = count;
    part.careful = table.careful;
    for (int row = 0; row < 3; row++) {
        const auto from = table.rows.begin() + row * table.columns + first;
        part.rows.insert(part.rows.end(), from, from + count);
    }
    for (int64_t i = 0; i < count; i++) {
        part.rows[2 * count + i] -= static_cast<int32_t>(first_key);
    }
    return part;
}

bool has_empty(const LevelTable &table) {
    const auto widths = table.rows.begin();
    return std::count(widths, widths + table.columns, kNoExtent) > 0;
}

Tensor table_tensor(LevelTable &levels) {
    Tensor table;
    table.name = "level_table";
    table.data = reinterpret_cast<unsigned char *>(levels.rows.data());
    table.dtype = {kDLInt, 32, 1};
    table.ndim = 2;
    table.shape = {3, levels.columns};
    table.strides = {levels.columns, 1};
    return table;
}

}  // namespace deformkit
