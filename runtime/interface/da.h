// Deformable aggregation: what a call is given, checked.
#pragma once

#include <cstdint>
#include <optional>

#include "runtime/cpu/levels.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

struct DaInputs {
    Tensor feature_maps;       // [B, K, G, D]: C = G * D channels
    Tensor spatial_shape;      // [N, S, 2]
    Tensor scale_start_index;  // [N, S]
    Tensor sample_locations;   // [B, A, P, N, 2]
    Tensor weights;            // [B, A, P, N, S, G]
    int64_t B, K, G, D, A, P, N, S;
    int64_t first_key = 0;  // of feature_maps, among those that scale_start_index counts: see drop_unused_keys()

    bool is_empty() const { return K == 0 || P == 0 || N == 0 || S == 0; }
    /// Of map n * S + s.
    Level level(int64_t map) const;
};

/// feature_maps, K and first_key are cut down to the keys that maps use, where kernels could not address all (used_keys.h).
void drop_unused_keys(DaInputs &a);

struct DaForwardCall {
    DaInputs inputs;
    Tensor output;  // [B, A, G, D]
};

struct DaBackwardCall {
    DaInputs inputs;
    Tensor grad_output;  // [B, A, G, D]
    std::optional<Tensor> grad_feature_maps, grad_locations, grad_weights;
};

/// The arguments of deformkit_deformable_aggregation_forward and _backward. Checks throw a Failure.
DaForwardCall check_da_forward(const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
                               const DLTensor *sample_locations, const DLTensor *weights, const DLTensor *output);
DaBackwardCall check_da_backward(const DLTensor *feature_maps, const DLTensor *spatial_shape, const DLTensor *scale_start_index,
                                 const DLTensor *sample_locations, const DLTensor *weights, const DLTensor *grad_output,
                                 const DLTensor *grad_feature_maps, const DLTensor *grad_sample_locations,
                                 const DLTensor *grad_weights);

}  // namespace deformkit
