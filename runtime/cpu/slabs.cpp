#include "runtime/cpu/slabs.h"

#include <algorithm>
#include <limits>

#include "runtime/dispatch/dispatch.h"
#include "runtime/system/parallel.h"
#include "runtime/system/workspace.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

namespace {

// Time for one sample: to find its four cells, and to add to a vector of channels of each (detr_encoder, where to find cells is
// a fifth of a whole slab's; Xeon, AVX-512).
constexpr int64_t kFindCells = 3, kAddVector = 8;

}  // namespace

ScratchVector<SlabGroup> plan_slabs(const LevelTable &levels, int64_t points, int64_t samples, int64_t keys) {
    ScratchVector<SlabGroup> groups;
    groups.reserve(std::max<int64_t>(1, samples / points));
    bool separate = !levels.careful;
    for (int64_t s = 0; s < samples; s += points) {
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
        groups.assign(1, {0, samples, 0, keys});
    }
    std::sort(groups.begin(), groups.end(), [](const SlabGroup &x, const SlabGroup &y) {
        return x.num_keys != y.num_keys ? x.num_keys > y.num_keys : x.first_sample < y.first_sample;
    });
    return groups;
}

int64_t plan_workspace(int64_t levels) {
    return 2 * workspace_block(levels * sizeof(SlabGroup));  // the plan, and clear_gaps() of it
}

int64_t channels_of_slab(int64_t channels, int64_t slabs, int64_t threads) {
    // Where every task takes the same time, and threads take one after the other.
    const int64_t vectors = divide_up(channels, kChannelMultiple);
    int64_t best = vectors, least = std::numeric_limits<int64_t>::max();
    for (int64_t part = vectors; part > 0; part--) {
        const int64_t rounds = divide_up(slabs * divide_up(vectors, part), threads);
        const int64_t time = rounds * (kFindCells + kAddVector * part);
        if (time < least) {
            best = part;
            least = time;
        }
    }
    return std::min(channels, best * kChannelMultiple);
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

Slab::Slab(const Tensor &gradient, bool in_place, int64_t spare_cells) : gradient_(gradient) {
    if (in_place) {
        tensor_ = gradient.swap_axes(0, 1);
        return;
    }
    tensor_.name = "slab";
    tensor_.dtype = arithmetic_type(gradient.dtype);
    tensor_.ndim = 3;
    tensor_.shape = {gradient.shape[1], std::max(gradient.shape[0] + spare_cells, kMinCells),
                     round_up(gradient.shape[2], kChannelMultiple)};
    memory_ = Scratch(tensor_.elements() * tensor_.element_bytes());
    tensor_ = dense_like(tensor_, memory_.data());
    clear_block(tensor_);
}

void Slab::store(bool stream) const {
    if (memory_.data() == nullptr) {
        return;
    }
    const Tensor sums = slice(slice(tensor_, 1, 0, gradient_.shape[0]), 2, 0, gradient_.shape[2]).swap_axes(0, 1);
    if (gradient_.dtype.bits == tensor_.dtype.bits) {
        copy_block(sums, gradient_, stream);
        return;
    }
    Buffer input(sums), output(gradient_);
    void *args[] = {input.get(), output.get()};
    run_kernel(choose_variant("rows_narrow", gradient_.dtype), args, {});
}

int64_t slab_workspace(int64_t keys, int64_t channels, DLDataType dtype) {
    return workspace_block(std::max(keys, kMinCells) * round_up(channels, kChannelMultiple) *
                           (arithmetic_type(dtype).bits / 8));
}

bool can_be_slab(const Tensor &gradient) {
    return gradient.dtype.bits >= 32 && gradient.shape[3] % kChannelMultiple == 0;
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
