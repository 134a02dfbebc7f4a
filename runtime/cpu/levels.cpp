#include "runtime/cpu/levels.h"

#include <algorithm>

#include "runtime/system/log.h"
#include "runtime/tensor/checked.h"

namespace deformkit {

namespace {

long long number(int64_t n) {
    return static_cast<long long>(n);
}

}  // namespace

bool Level::fits(int64_t num_keys) const {
    // Extents are at most 2^31 - 1 where they are multiplied.
    return empty() || (std::max(height, width) <= kMostOfAxis && first_key >= 0 && first_key <= num_keys &&
                       height * width <= num_keys - first_key);
}

KeyRange used_keys(int64_t levels, const std::function<Level(int64_t)> &level, int64_t num_keys) {
    int64_t begin = num_keys, end = 0;
    for (int64_t l = 0; l < levels; l++) {
        const Level at = level(l);
        if (!at.fits(num_keys)) {
            return {0, num_keys};
        }
        if (!at.empty()) {
            begin = std::min(begin, at.first_key);
            end = std::max(end, at.first_key + at.height * at.width);
        }
    }
    return begin < end ? KeyRange{begin, end - begin} : KeyRange{0, 1};
}

LevelTable LevelTable::part(int64_t first, int64_t count) const {
    LevelTable table = *this;
    table.rows += first;
    table.columns = count;
    return table;
}

Tensor LevelTable::tensor() const {
    Tensor table;
    table.name = "level_table";
    table.data = reinterpret_cast<unsigned char *>(rows);
    table.dtype = {kDLInt, 32, 1};
    table.ndim = 2;
    table.shape = {kLevelRows, columns};
    table.strides = {pitch, 1};
    return table;
}

CallArray<int32_t> reserve_levels(CallMemory &memory, int64_t columns) {
    return {memory, kLevelRows * columns};
}

LevelTable make_level_table(CallArray<int32_t> &memory, int64_t levels, const std::function<Level(int64_t)> &level,
                            int64_t heads, int64_t points, int64_t num_keys) {
    const int64_t samples = levels * points;
    LevelTable table;
    table.columns = table.pitch = heads * samples;
    memory.resize(kLevelRows * table.columns);
    table.rows = memory.data();
    for (int64_t l = 0; l < levels; l++) {
        Level at = level(l);
        const bool representable =
            std::max(at.height, at.width) <= kMostOfAxis && at.first_key == static_cast<int32_t>(at.first_key);
        if (at.empty() || !representable) {
            if (at.height != 0 && at.width != 0) {
                log("level %lld: size (%lld, %lld) from key %lld makes no sense: it is taken to be empty", number(l),
                    number(at.height), number(at.width), number(at.first_key));
            }
            at = {kNoExtent, kNoExtent, 0};
            table.has_empty = true;
        } else if (!at.fits(num_keys)) {
            log("level %lld: keys %lld to %lld do not all lie in value's %lld: those outside count as zero", number(l),
                number(at.first_key), number(at.first_key + at.height * at.width), number(num_keys));
            table.check_cells = true;
        }
        for (int64_t column = l * points; column < (l + 1) * points; column++) {
            table.width(column) = static_cast<int32_t>(at.width);
            table.height(column) = static_cast<int32_t>(at.height);
            table.first_key(column) = static_cast<int32_t>(at.first_key);
        }
    }
    for (int64_t row = 0; row < kLevelRows && samples > 0; row++) {
        int32_t *const first_head = table.rows + row * table.pitch;
        for (int64_t m = 1; m < heads; m++) {
            std::copy_n(first_head, samples, first_head + m * samples);
        }
    }
    return table;
}

}  // namespace deformkit
