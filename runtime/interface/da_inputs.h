// What deformable aggregation's forward and backward are given, checked, and what both do with it before a kernel runs.
#pragma once

#include <cstdint>

#include "runtime/cpu/levels.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

struct DaInputs {
    Tensor feature_maps;       // [B, K, G, D]: C = G * D channels
    Tensor spatial_shape;      // [N, S, 2]
    Tensor scale_start_index;  // [N, S]
    Tensor sample_locations;   // [B, A, P, N, 2]
    Tensor weights;            // [B, A, P, N, S, G]
    int64_t B, K, G, D, A, P, N, S;

    bool nothing_to_sample() const { return K == 0 || P == 0 || N == 0 || S == 0; }
};

DaInputs view_da_inputs(const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
                        const DLTensor *sample_locations, const DLTensor *weights);

/// The output or its gradient, [B, A, C], as [B, A, G, D].
Tensor view_anchors(const char *name, const DLTensor *tensor, const DaInputs &inputs);

/// A column for each map, cameras' scales one after the other. Careful also where a map has no cells: kernels then give what is
/// no cell the place of a spare one.
LevelTable make_map_table(const DaInputs &inputs);

/// Some batch items of feature_maps, with a spare cell of zeros behind the others where the table is careful.
Cells prepare_maps(const DaInputs &inputs, const LevelTable &table, const Variant &variant, int64_t first, int64_t count);

/// Batch items to take at once, so that copies stay within bounds and strides within 32 bits.
int64_t batches_at_once(const DaInputs &inputs, const LevelTable &table, const Tensor &output);

}  // namespace deformkit
