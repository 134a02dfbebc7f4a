#include "blocks.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "layout.h"
#include "parallel.h"
#include "workspace.h"

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

namespace {

template <size_t Bytes>
void copy_pieces(const unsigned char *from, int64_t from_step, unsigned char *to, int64_t to_step, int64_t count, size_t) {
    for (int64_t i = 0; i < count; i++) {
        std::memcpy(to + i * to_step, from + i * from_step, Bytes);
    }
}

void copy_pieces_of_any_size(const unsigned char *from, int64_t from_step, unsigned char *to, int64_t to_step, int64_t count,
                             size_t bytes) {
    for (int64_t i = 0; i < count; i++) {
        std::memcpy(to + i * to_step, from + i * from_step, bytes);
    }
}

/// Pieces are small, and a call of memcpy for each would take longer than the copy.
auto piece_copier(size_t bytes) {
    switch (bytes) {
        case 8:
            return copy_pieces<8>;
        case 16:
            return copy_pieces<16>;
        case 32:
            return copy_pieces<32>;
        case 64:
            return copy_pieces<64>;
        case 128:
            return copy_pieces<128>;
        default:
            return copy_pieces_of_any_size;
    }
}

}  // namespace

// Less than about 20 us of work is not worth waking a thread for.
constexpr int64_t kBytesPerTask = int64_t{128} << 10;

OwnedTensor pack_blocks(const Tensor &tensor, const ScratchVector<Block> &blocks, int64_t padded_extent) {
    const int64_t N = tensor.shape[0], Q = tensor.shape[1], A = tensor.shape[2], C = tensor.shape[3];
    OwnedTensor owned = allocate_like(tensor, {0, 2, 1, 3}, {N, Q, A, padded_extent});
    const Tensor &to = owned.tensor;
    const int64_t bytes = tensor.element_bytes(), num_blocks = static_cast<int64_t>(blocks.size());
    const auto copy = piece_copier(C * bytes);
    const auto copy_block = [&](int64_t which) {
        const Block &block = blocks[which % num_blocks];
        const unsigned char *source = tensor.data + which / num_blocks * tensor.strides[0] * bytes;
        unsigned char *target = to.data + (which / num_blocks * to.strides[0] + block.packed * to.strides[1]) * bytes;
        for (int64_t i = 0; i < block.size(); i++) {
            const int64_t q = block.first + i % block.width + block.pitch * (i / block.width);
            const unsigned char *from = source + q * tensor.strides[1] * bytes;
            unsigned char *there = target + i * to.strides[1] * bytes;
            if (dense(tensor, 3)) {
                copy(from, tensor.strides[2] * bytes, there, to.strides[2] * bytes, A, C * bytes);
                continue;
            }
            for (int64_t a = 0; a < A; a++) {
                for (int64_t c = 0; c < C; c++) {
                    std::memcpy(there + (a * to.strides[2] + c) * bytes,
                                from + (a * tensor.strides[2] + c * tensor.strides[3]) * bytes, bytes);
                }
            }
        }
    };
    const int64_t copies = N * num_blocks;
    const int64_t per_task = std::max<int64_t>(1, copies * kBytesPerTask / std::max<int64_t>(1, tensor.elements() * bytes));
    parallel_for(static_cast<int>(divide_up(copies, per_task)), [&](int task) {
        for (int64_t i = task * per_task; i < std::min(copies, (task + 1) * per_task); i++) {
            copy_block(i);
        }
    });
    // The caller sees the axes in the order of memory.
    std::swap(owned.tensor.shape[1], owned.tensor.shape[2]);
    std::swap(owned.tensor.strides[1], owned.tensor.strides[2]);
    owned.tensor.shape[3] = padded_extent;
    return owned;
}

}  // namespace deformkit
