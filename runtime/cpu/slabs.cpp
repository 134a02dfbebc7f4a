#include "runtime/cpu/slabs.h"

#include <algorithm>
#include <limits>

#include "runtime/dispatch/dispatch.h"
#include "runtime/dispatch/kernel.h"
#include "runtime/tensor/buffer.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

MapGroups::MapGroups(CallMemory &memory, int64_t maps)
    : maps_(memory, maps), groups_(memory, std::max<int64_t>(maps, 1)), gaps_(memory, maps + 1) {}

void MapGroups::make(const LevelTable &table, int64_t columns, int64_t step, int64_t num_keys) {
    maps_.clear();
    groups_.clear();
    gaps_.clear();
    for (int64_t map = 0; map * step < columns; map++) {
        if (table.width(map * step) > 0) {
            maps_.push_back(map);
        }
    }
    const auto first_key = [&](int64_t map) -> int64_t { return table.first_key(map * step); };
    if (!table.check_cells) {
        std::sort(maps_.begin(), maps_.end(),
                  [&](int64_t i, int64_t j) { return first_key(i) != first_key(j) ? first_key(i) < first_key(j) : i < j; });
    }
    int64_t covered = 0;
    for (const int64_t &map : maps_) {
        const int64_t first = table.check_cells ? 0 : first_key(map);
        const int64_t end =
            table.check_cells ? num_keys : first + static_cast<int64_t>(table.width(map * step)) * table.height(map * step);
        if (groups_.empty() || first >= covered) {
            gaps_.push_back({covered, first - covered});
            groups_.push_back({{first, end - first}, &map, &map + 1});
        } else {
            MapGroup &last = groups_.back();
            last.keys.count = std::max(last.keys.count, end - last.keys.first);
            last.last_map = &map + 1;
        }
        covered = std::max(covered, end);
    }
    gaps_.push_back({covered, num_keys - covered});
    for (const MapGroup &group : groups_) {
        std::sort(maps_.begin() + (group.begin() - maps_.begin()), maps_.begin() + (group.end() - maps_.begin()));
    }
    // What is left at the end is small.
    std::sort(groups_.begin(), groups_.end(), [](const MapGroup &x, const MapGroup &y) {
        const int64_t work_of_x = x.keys.count * x.size(), work_of_y = y.keys.count * y.size();
        return work_of_x != work_of_y ? work_of_x > work_of_y : x.keys.first < y.keys.first;
    });
}

void MapGroups::clear_gaps(const Tensor &gradient) const {
    for (const KeyRange &gap : gaps_) {
        fill_zero(slice(gradient, 1, gap.first, gap.count));
    }
}

int64_t channels_of_slab(int64_t channels, int64_t slabs, int64_t threads, const ScatterCost &cost) {
    // Where every task takes the same time, and threads take one after the other.
    const int64_t vectors = divide_up(channels, kChannelMultiple);
    int64_t best = vectors, least = std::numeric_limits<int64_t>::max();
    for (int64_t part = vectors; part > 0; part--) {
        const int64_t rounds = divide_up(product({slabs, divide_up(vectors, part)}), threads);
        const int64_t time = product({rounds, cost.find_cells + cost.add_vector * part});
        if (time < least) {
            best = part;
            least = time;
        }
    }
    return std::min(channels, best * kChannelMultiple);
}

Slab::Slab(const Tensor &gradient, bool in_place) : gradient_(gradient) {
    if (in_place) {
        tensor_ = gradient.swap_axes(0, 1);
        return;
    }
    tensor_.name = "slab";
    tensor_.dtype = arithmetic_type(gradient.dtype);
    tensor_.ndim = 3;
    tensor_.shape = {gradient.shape[1], gradient.shape[0], round_up(gradient.shape[2], kChannelMultiple)};
    memory_ = Scratch(product({tensor_.elements(), tensor_.element_bytes()}));
    tensor_ = dense_like(tensor_, memory_.data());
    if (!fits_buffer(tensor_)) {
        // Cell by cell, then: kernels do not address heads that far apart.
        tensor_ = dense_like(tensor_.swap_axes(0, 1), memory_.data()).swap_axes(0, 1);
    }
    clear_block(tensor_);
}

void Slab::store(const Variant *narrow, bool stream) const {
    if (memory_.data() == nullptr) {
        return;
    }
    const Tensor sums = slice(slice(tensor_, 1, 0, gradient_.shape[0]), 2, 0, gradient_.shape[2]).swap_axes(0, 1);
    if (narrow == nullptr) {
        copy_block(sums, gradient_, stream);
        return;
    }
    Buffer input(sums), output(gradient_);
    void *args[] = {input.get(), output.get()};
    run_kernel(*narrow, args);
}

bool can_be_slab(const Tensor &gradient) {
    return gradient.dtype.bits >= 32 && gradient.shape[3] % kChannelMultiple == 0;
}

}  // namespace deformkit
