#include "slabs.h"

#include <algorithm>

#include "buffer.h"
#include "dispatch.h"
#include "layout.h"
#include "pack.h"
#include "parallel.h"

namespace deformkit {

namespace {

constexpr int64_t kCellsPerTask = 256;

}  // namespace

std::vector<KeyGroup> group_maps(const LevelTable &table, int64_t keys) {
    std::vector<KeyGroup> groups;
    const int32_t *widths = table.rows.data(), *heights = widths + table.columns, *first_keys = heights + table.columns;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < table.columns; i++) {
        if (widths[i] > 0) {
            order.push_back(i);
        }
    }
    if (table.careful) {
        return order.empty() ? groups : std::vector<KeyGroup>{{0, keys, order}};
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return first_keys[i] < first_keys[j]; });
    for (int64_t i : order) {
        const int64_t end = first_keys[i] + static_cast<int64_t>(widths[i]) * heights[i];
        if (groups.empty() || groups.back().first_key + groups.back().num_keys <= first_keys[i]) {
            groups.push_back({first_keys[i], end - first_keys[i], {i}});
        } else {
            KeyGroup &last = groups.back();
            last.num_keys = std::max(last.num_keys, end - last.first_key);
            last.maps.push_back(i);
        }
    }
    // The largest first: what is left at the end is small.
    std::stable_sort(groups.begin(), groups.end(), [](const KeyGroup &x, const KeyGroup &y) {
        return x.num_keys * static_cast<int64_t>(x.maps.size()) > y.num_keys * static_cast<int64_t>(y.maps.size());
    });
    return groups;
}

Slabs allocate_slabs(DLDataType storage, int64_t count, int64_t parts, int64_t heads, int64_t cells, int64_t channels,
                     bool heads_outside) {
    Slabs slabs;
    Tensor &t = slabs.tensor;
    t.name = "slabs";
    t.dtype = {kDLFloat, static_cast<uint8_t>(storage.bits == 64 ? 64 : 32), 1};
    t.ndim = 5;
    t.shape = {count, parts, heads, cells, round_up(channels, kChannelMultiple)};
    int64_t elements = 1;
    const int by_heads[] = {4, 3, 2, 1, 0}, by_cells[] = {4, 2, 3, 1, 0};
    for (int axis : heads_outside ? by_heads : by_cells) {
        t.strides[axis] = elements;
        elements *= t.shape[axis];
    }
    slabs.memory = Scratch(elements * t.element_bytes());
    t.data = slabs.memory.data();
    return slabs;
}

void reduce_slabs(const Tensor &slabs, int64_t first_key, int64_t num_keys, const Tensor &gradient) {
    const Variant &variant = choose_variant("rows_reduce", gradient.dtype);
    const int64_t chunks = divide_up(num_keys, kCellsPerTask);
    parallel_for(static_cast<int>(gradient.shape[0] * chunks), [&](int task) {
        const int64_t b = task / chunks, begin = task % chunks * kCellsPerTask;
        const int64_t cells = std::min(kCellsPerTask, num_keys - begin);
        Buffer input(slice(item(slabs, 0, b), 2, begin, cells));
        Buffer output(slice(item(gradient, 0, b), 0, first_key + begin, cells));
        void *args[] = {input.get(), output.get()};
        run_kernel(variant, args, {});
    });
}

void clear_gaps(std::vector<std::pair<int64_t, int64_t>> ranges, const Tensor &gradient) {
    std::sort(ranges.begin(), ranges.end());
    int64_t covered = 0;
    const auto clear = [&](int64_t begin, int64_t end) {
        if (begin < end) {
            fill_zero(slice(gradient, 1, begin, end - begin));
        }
    };
    for (const auto &[first, count] : ranges) {
        clear(covered, first);
        covered = first + count;
    }
    clear(covered, gradient.shape[1]);
}

}  // namespace deformkit
