#include "slabs.h"

#include <algorithm>

#include "buffer.h"
#include "dispatch.h"
#include "layout.h"
#include "parallel.h"
#include "workspace.h"

namespace deformkit {

namespace {

// Slabs to have at least, where there is enough to do: what keeps 64 cores busy.
constexpr int64_t kSlabs = 64;
// A further part costs a pass over its cells to clear them and one to add them up: it has to write to each several times.
constexpr int64_t kWritesPerCell = 8;
constexpr int64_t kMinSamplesPerSlab = 8192;
constexpr int64_t kCellsPerTask = 256;

// Kernels read cells in pairs: there are always two.
constexpr int64_t kMinCells = 2;

int64_t parts_of(const SlabProblem &n, int64_t groups, int64_t num_samples, int64_t num_keys) {
    const int64_t slabs = std::max<int64_t>(1, n.batches * n.heads * groups), of_head = n.queries * num_samples;
    return std::max<int64_t>(
        1, std::min({divide_up(kSlabs, slabs), of_head / kMinSamplesPerSlab, of_head * 4 / (num_keys * kWritesPerCell)}));
}

}  // namespace

ScratchVector<SlabGroup> plan_slabs(const LevelTable &levels, int64_t points, const SlabProblem &n) {
    ScratchVector<SlabGroup> groups;
    groups.reserve(std::max<int64_t>(1, n.samples / points));
    bool separate = !levels.careful;
    for (int64_t s = 0; s < n.samples; s += points) {
        const int64_t width = levels.rows[s], height = levels.rows[levels.columns + s];
        if (width > 0 && height > 0) {
            groups.push_back({s, points, levels.rows[2 * levels.columns + s], width * height});
        }
    }
    for (size_t i = 0; i < groups.size() && separate; i++) {
        for (size_t j = 0; j < i; j++) {
            separate &= groups[i].first_key + groups[i].num_keys <= groups[j].first_key ||
                        groups[j].first_key + groups[j].num_keys <= groups[i].first_key;
        }
    }
    if (!separate) {
        groups.assign(1, {0, n.samples, 0, n.keys});
    }
    for (SlabGroup &group : groups) {
        group.parts = parts_of(n, static_cast<int64_t>(groups.size()), group.num_samples, group.num_keys);
    }
    std::sort(groups.begin(), groups.end(), [](const SlabGroup &x, const SlabGroup &y) {
        const int64_t of_x = x.num_samples * y.parts, of_y = y.num_samples * x.parts;
        return of_x != of_y ? of_x > of_y : x.first_sample < y.first_sample;
    });
    return groups;
}

std::vector<MapGroup> group_maps(const LevelTable &table, int64_t keys) {
    std::vector<MapGroup> groups;
    const int32_t *widths = table.rows.data(), *heights = widths + table.columns, *first_keys = heights + table.columns;
    std::vector<int64_t> order;
    for (int64_t i = 0; i < table.columns; i++) {
        if (widths[i] > 0) {
            order.push_back(i);
        }
    }
    if (table.careful) {
        return order.empty() ? groups : std::vector<MapGroup>{{{0, 0, 0, keys}, order}};
    }
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) { return first_keys[i] < first_keys[j]; });
    for (int64_t i : order) {
        const int64_t cells = static_cast<int64_t>(widths[i]) * heights[i], end = first_keys[i] + cells;
        if (groups.empty() || groups.back().first_key + groups.back().num_keys <= first_keys[i]) {
            groups.push_back({{0, 0, first_keys[i], cells}, {i}});
        } else {
            MapGroup &last = groups.back();
            last.num_keys = std::max(last.num_keys, end - last.first_key);
            last.maps.push_back(i);
        }
    }
    for (MapGroup &group : groups) {
        std::sort(group.maps.begin(), group.maps.end());
    }
    // What is left at the end is small.
    std::stable_sort(groups.begin(), groups.end(), [](const MapGroup &x, const MapGroup &y) {
        return x.num_keys * static_cast<int64_t>(x.maps.size()) > y.num_keys * static_cast<int64_t>(y.maps.size());
    });
    return groups;
}

int64_t slabs_workspace(int64_t levels, int64_t points, const SlabProblem &n, int64_t batches, int64_t channels,
                        DLDataType dtype) {
    // A group of k keys has max(1, min(c, w / k)) parts, where c depends on the number of groups and w on its samples: where
    // that is more than one, at most min(c k, w) cells in all, and c more where it has but one key.
    int64_t cells = 0;
    const auto add = [&](int64_t groups, int64_t num_samples) {
        const int64_t c = parts_of(n, 1, num_samples, 1), w = n.queries * num_samples * 4 / kWritesPerCell;
        cells = std::max(cells, c == 1 ? 0 : std::min(n.keys * c, groups * w) + groups * c);
    };
    add(1, n.samples);
    add(levels, points);
    const int64_t cell_bytes = n.heads * round_up(channels, kChannelMultiple) * (dtype.bits == 64 ? 8 : 4);
    return 2 * workspace_block(levels * sizeof(SlabGroup)) + batches * cells * cell_bytes + levels * workspace_block(1);
}

int64_t one_slab_workspace(int64_t keys, int64_t channels, DLDataType dtype) {
    return workspace_block(std::max(keys, kMinCells) * round_up(channels, kChannelMultiple) * (dtype.bits == 64 ? 8 : 4));
}

bool can_be_slab(const Tensor &gradient) {
    return gradient.dtype.bits >= 32 && gradient.shape[3] % kChannelMultiple == 0;
}

Slabs allocate_slabs(const SlabGroup &group, int64_t batches, int64_t heads, int64_t channels, DLDataType dtype) {
    Slabs slabs;
    Tensor &t = slabs.tensor;
    t.name = "slabs";
    t.dtype = {kDLFloat, static_cast<uint8_t>(dtype.bits == 64 ? 64 : 32), 1};
    t.ndim = 5;
    t.shape = {batches, group.parts, heads, std::max(group.num_keys, kMinCells), round_up(channels, kChannelMultiple)};
    slabs.memory = Scratch(t.elements() * t.element_bytes());
    t = dense_like(t, slabs.memory.data());
    return slabs;
}

void reduce_block(const Tensor &slabs, const Tensor &gradient) {
    Buffer input(slabs), output(gradient);
    void *args[] = {input.get(), output.get()};
    run_kernel(choose_variant("rows_reduce", gradient.dtype), args, {});
}

void reduce_slabs(const Slabs &slabs, const SlabGroup &group, const Tensor &gradient) {
    const int64_t chunks = divide_up(group.num_keys, kCellsPerTask);
    parallel_for(static_cast<int>(gradient.shape[0] * chunks), [&](int task) {
        const int64_t b = task / chunks, begin = task % chunks * kCellsPerTask;
        const int64_t cells = std::min(kCellsPerTask, group.num_keys - begin);
        reduce_block(slice(item(slabs.tensor, 0, b), 2, begin, cells),
                     slice(item(gradient, 0, b), 0, group.first_key + begin, cells));
    });
}

void clear_gaps(ScratchVector<SlabGroup> groups, const Tensor &gradient) {
    std::sort(groups.begin(), groups.end(), [](const auto &x, const auto &y) { return x.first_key < y.first_key; });
    int64_t covered = 0;
    const auto clear = [&](int64_t begin, int64_t end) {
        if (begin < end) {
            fill_zero(slice(gradient, 1, begin, end - begin));
        }
    };
    for (const SlabGroup &group : groups) {
        clear(covered, group.first_key);
        covered = group.first_key + group.num_keys;
    }
    clear(covered, gradient.shape[1]);
}

void clear_gaps(const std::vector<MapGroup> &groups, const Tensor &gradient) {
    clear_gaps(ScratchVector<SlabGroup>(groups.begin(), groups.end()), gradient);
}

}  // namespace deformkit
