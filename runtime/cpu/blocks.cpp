#include "runtime/cpu/blocks.h"

#include <algorithm>
#include <utility>

#include "runtime/system/workspace.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

namespace {

/// The levels' rectangles if they tile [0, num_keys), else one row.
ScratchVector<Block> make_regions(const LevelTable &levels, int64_t samples, int64_t num_queries, int64_t num_keys) {
    ScratchVector<Block> regions;
    regions.reserve(std::max<int64_t>(samples, 1));
    if (num_queries == num_keys && !levels.careful) {
        int64_t covered = 0, last_first = -1;
        for (int64_t s = 0; s < samples; s++) {
            const int64_t width = levels.rows[s], height = levels.rows[levels.columns + s];
            const int64_t first = levels.rows[2 * levels.columns + s];
            if (first != last_first && width > 0 && height > 0) {
                regions.push_back({first, width, height, width, 0});
                covered += width * height;
                last_first = first;
            }
        }
        std::sort(regions.begin(), regions.end(), [](const Block &a, const Block &b) { return a.first < b.first; });
        int64_t next = 0;
        for (const Block &region : regions) {
            next = region.first == next ? next + region.width * region.height : -1;
        }
        if (next == num_keys && covered == num_keys) {
            return regions;
        }
    }
    regions.assign(1, {0, num_queries, 1, num_queries, 0});
    return regions;
}

/// Of a block of `size` queries in a region of more than one row: twice as wide as high.
int64_t block_height(int64_t size) {
    int64_t height = 1;
    while (height * height * 4 <= size) {
        height *= 2;
    }
    return height;
}

/// The worst region is one cell wide, where blocks are but their height; two more in each for what is left over.
int64_t most_blocks(int64_t samples, int64_t num_queries, int64_t size) {
    return num_queries / block_height(size) + 2 * std::max<int64_t>(samples, 1);
}

}  // namespace

int64_t blocks_workspace(int64_t samples, int64_t num_queries, int64_t size) {
    return workspace_block(most_blocks(samples, num_queries, size) * sizeof(Block)) +
           workspace_block(std::max<int64_t>(samples, 1) * sizeof(Block));
}

ScratchVector<Block> make_blocks(const LevelTable &levels, int64_t samples, int64_t num_queries, int64_t num_keys,
                                 int64_t size) {
    ScratchVector<Block> blocks;
    blocks.reserve(most_blocks(samples, num_queries, size));
    int64_t packed = 0;
    for (const Block &region : make_regions(levels, samples, num_queries, num_keys)) {
        const int64_t height = region.height > 1 ? block_height(size) : 1;
        const int64_t width = std::max<int64_t>(1, size / height);
        for (int64_t y = 0; y < region.height; y += height) {
            for (int64_t x = 0; x < region.width; x += width) {
                blocks.push_back({region.first + y * region.pitch + x, std::min(width, region.width - x),
                                  std::min(height, region.height - y), region.pitch, packed});
                packed += blocks.back().size();
            }
        }
    }
    return blocks;
}

bool in_order(const ScratchVector<Block> &blocks) {
    return std::all_of(blocks.begin(), blocks.end(),
                       [](const Block &block) { return block.height == 1 && block.packed == block.first; });
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

OwnedTensor allocate_blocks(const Tensor &tensor, int64_t padded_extent) {
    OwnedTensor owned = allocate_like(tensor, {0, 2, 1, 3}, {tensor.shape[0], tensor.shape[1], tensor.shape[2], padded_extent});
    // The caller sees the axes in the order of memory.
    std::swap(owned.tensor.shape[1], owned.tensor.shape[2]);
    std::swap(owned.tensor.strides[1], owned.tensor.strides[2]);
    owned.tensor.shape[3] = padded_extent;
    return owned;
}

void pack_block(const Tensor &tensor, int64_t b, const Block &block, const Tensor &packed) {
    const Tensor from = block_of(item(tensor, 0, b), 0, block);  // [Y, X, A, C]
    const Tensor to = slice(packed_block_of(item(packed, 0, b).swap_axes(0, 1), 0, block), 3, 0, from.shape[3]);
    copy_block(from, to, /*stream=*/false);
}

}  // namespace deformkit
