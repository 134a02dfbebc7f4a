// Blocks of queries: what one call of a kernel takes on.
//
// In an encoder the queries are the cells of the maps themselves. There a block is a rectangle of cells: what its samples touch
// then fits into L1, where a run of as many queries along a row would touch three times as much.
#pragma once

#include <cstdint>

#include "runtime/cpu/levels.h"
#include "runtime/system/memory.h"
#include "runtime/tensor/pack.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

/// Queries first + x + pitch * y, 0 <= x < width, 0 <= y < height.
struct Block {
    int64_t first, width, height, pitch;
    int64_t packed;  ///< where its queries begin when all are copied block by block

    int64_t size() const { return width * height; }
};

/// All queries in blocks of about `size`: rectangles where there is a query for each key and levels fill the keys, in order;
/// runs otherwise.
ScratchVector<Block> make_blocks(const LevelTable &levels, int64_t samples, int64_t num_queries, int64_t num_keys,
                                 int64_t size);
/// The most that it takes of a workspace, and that its result keeps, whatever the levels.
int64_t blocks_workspace(int64_t samples, int64_t num_queries, int64_t size);

/// Whether the order of blocks is that of the queries.
bool in_order(const ScratchVector<Block> &blocks);

/// The block's part of a tensor: axis Q becomes axes Y and X.
Tensor block_of(const Tensor &tensor, int axis, const Block &block);

/// The block's part of a tensor whose axis Q is in the order of blocks: axis Q becomes axes Y and X.
Tensor packed_block_of(const Tensor &tensor, int axis, const Block &block);

/// Scratch memory for [B, Q, A, C] as [B, A, Q, C'], queries in the order of blocks, zeros from C to C'.
OwnedTensor allocate_blocks(const Tensor &tensor, int64_t padded_extent);
/// Fills in one block of batch item `b`.
void pack_block(const Tensor &tensor, int64_t b, const Block &block, const Tensor &packed);

}  // namespace deformkit
