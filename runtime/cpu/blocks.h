// Blocks of queries: what one call of a kernel takes on.
//
// In an encoder the queries are the cells of the maps themselves. There a block is a rectangle of cells: what its samples touch
// then fits into L1, where a run of as many queries along a row would touch three times as much.
#pragma once

#include <cstdint>

#include "runtime/cpu/levels.h"
#include "runtime/system/memory.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Queries first + x + pitch * y, 0 <= x < width, 0 <= y < height.
struct Block {
    int64_t first, width, height, pitch;
    int64_t packed;  ///< where its queries begin when all are copied block by block

    int64_t size() const { return width * height; }
};

/// All queries in blocks of about so many: rectangles where there is a query for each key and levels fill the keys, in order;
/// runs otherwise.
class Blocks {
public:
    Blocks() = default;
    /// Room for the blocks of any levels.
    Blocks(CallMemory &memory, int64_t samples, int64_t size);

    void make(const LevelTable &levels, int64_t samples, int64_t num_queries, int64_t num_keys);

    int64_t count() const { return count_; }
    Block operator[](int64_t i) const;
    /// Whether the order of blocks is that of the queries.
    bool in_order() const;

    /// The largest that there can be, a run and a rectangle.
    Block longest_run() const { return {0, size_, 1, size_, 0}; }
    Block largest_rectangle() const;

private:
    /// Queries in blocks of one size, but for those at its right and lower edges.
    struct Region {
        Block all;
        int64_t width = 0, height = 0;  // of a block
        int64_t columns = 0, first_block = 0;
    };

    void make_regions(const LevelTable &levels, int64_t samples, int64_t num_queries, int64_t num_keys);

    int64_t size_ = 1, count_ = 0;
    CallArray<Region> regions_;
};

/// Calls `visit` with the block, or with its rows where kernels could not address two of them at once, in tensors whose queries
/// lie `stride` apart.
template <typename Visit>
void for_addressable_parts(const Block &block, int64_t stride, Visit &&visit) {
    if (block.height <= 1 || product({block.pitch, stride}) <= kMostOfAxis) {
        visit(block);
        return;
    }
    for (int64_t y = 0; y < block.height; y++) {
        visit(Block{block.first + y * block.pitch, block.width, 1, block.pitch, block.packed + y * block.width});
    }
}

/// The block's part of a tensor: axis Q becomes axes Y and X.
Tensor block_of(const Tensor &tensor, int axis, const Block &block);

/// The block's part of a tensor whose axis Q is in the order of blocks: axis Q becomes axes Y and X.
Tensor packed_block_of(const Tensor &tensor, int axis, const Block &block);

/// Room for [B, Q, A, C] as [B, A, Q, C'], queries in the order of blocks, zeros from C to C'.
Staged stage_blocks(CallMemory &memory, const Tensor &tensor, int64_t padded_extent);
/// Fills in one block of batch item `b`.
void pack_block(const Tensor &tensor, int64_t b, const Block &block, const Tensor &packed);

}  // namespace deformkit
