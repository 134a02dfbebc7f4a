#include "runtime/cpu/blocks.h"

#include <algorithm>
#include <iterator>

namespace deformkit {

namespace {

/// Of a block of `size` queries in a region of more than one row: twice as wide as high.
int64_t block_height(int64_t size) {
    int64_t height = 1;
    while (height * height * 4 <= size) {
        height *= 2;
    }
    return height;
}

}  // namespace

Blocks::Blocks(CallMemory &memory, int64_t samples, int64_t size)
    : size_(size), regions_(memory, std::max<int64_t>(samples, 1)) {}

/// The levels' rectangles if they tile [0, num_keys), else one row.
void Blocks::make_regions(const LevelTable &levels, int64_t samples, int64_t num_queries, int64_t num_keys) {
    regions_.clear();
    if (num_queries == num_keys && !levels.check_cells) {
        int64_t last_first = -1;
        for (int64_t s = 0; s < samples; s++) {
            const int64_t width = levels.width(s), first = levels.first_key(s);
            if (first != last_first && width > 0) {
                regions_.push_back({{first, width, levels.height(s), width, 0}});
                last_first = first;
            }
        }
        std::sort(regions_.begin(), regions_.end(), [](const Region &a, const Region &b) { return a.all.first < b.all.first; });
        int64_t next = 0;
        for (const Region &region : regions_) {
            next = region.all.first == next ? next + region.all.size() : -1;
        }
        if (next == num_keys) {
            return;
        }
    }
    regions_.clear();
    regions_.push_back({{0, num_queries, 1, num_queries, 0}});
}

void Blocks::make(const LevelTable &levels, int64_t samples, int64_t num_queries, int64_t num_keys) {
    make_regions(levels, samples, num_queries, num_keys);
    count_ = 0;
    int64_t packed = 0;
    for (Region &region : regions_) {
        region.height = region.all.height > 1 ? block_height(size_) : 1;
        region.width = std::max<int64_t>(1, size_ / region.height);
        region.columns = divide_up(region.all.width, region.width);
        region.first_block = count_;
        region.all.packed = packed;
        count_ += region.columns * divide_up(region.all.height, region.height);
        packed += region.all.size();
    }
}

Block Blocks::operator[](int64_t i) const {
    const Region &region = *std::prev(std::upper_bound(
        regions_.begin(), regions_.end(), i, [](int64_t block, const Region &other) { return block < other.first_block; }));
    const Block &all = region.all;
    const int64_t x = (i - region.first_block) % region.columns * region.width,
                  y = (i - region.first_block) / region.columns * region.height;
    const int64_t height = std::min(region.height, all.height - y);
    return {all.first + y * all.pitch + x, std::min(region.width, all.width - x), height, all.pitch,
            all.packed + y * all.width + x * height};
}

bool Blocks::in_order() const {
    return std::all_of(regions_.begin(), regions_.end(), [](const Region &region) { return region.height == 1; });
}

Block Blocks::largest_rectangle() const {
    const int64_t height = block_height(size_), width = std::max<int64_t>(1, size_ / height);
    return {0, width, height, width, 0};
}

Tensor block_of(const Tensor &tensor, int axis, const Block &block) {
    Tensor part = tensor.insert_axis(axis);
    part.data += block.first * tensor.strides[axis] * tensor.element_bytes();
    part.shape[axis] = block.height;
    part.strides[axis] = block.pitch * tensor.strides[axis];
    part.shape[axis + 1] = block.width;
    return part;
}

Tensor packed_block_of(const Tensor &tensor, int axis, const Block &block) {
    return block_of(tensor, axis, {block.packed, block.width, block.height, block.width, 0});
}

Staged stage_blocks(CallMemory &memory, const Tensor &tensor, int64_t padded_extent) {
    // The caller sees the axes in the order of memory.
    const Tensor by_axis = tensor.swap_axes(1, 2);
    return {memory, arranged(by_axis, {0, 1, 2, 3}, {by_axis.shape[0], by_axis.shape[1], by_axis.shape[2], padded_extent})};
}

void pack_block(const Tensor &tensor, int64_t b, const Block &block, const Tensor &packed) {
    const Tensor from = block_of(item(tensor, 0, b), 0, block);  // [Y, X, A, C]
    const Tensor to = packed_block_of(item(packed, 0, b).swap_axes(0, 1), 0, block);
    const int64_t channels = from.shape[3];
    copy_block(from, slice(to, 3, 0, channels), /*stream=*/false);
    clear_block(slice(to, 3, channels, to.shape[3] - channels));
}

}  // namespace deformkit
