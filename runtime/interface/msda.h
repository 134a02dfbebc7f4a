// Multi-scale deformable attention and geometric kernel attention: what a call is given, checked.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>

#include "runtime/cpu/levels.h"
#include "runtime/tensor/checked.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

struct MsdaInputs {
    Tensor value;               // [B, K, M, D]
    Tensor spatial_shapes;      // [L, 2]
    Tensor level_start_index;   // [L]
    Tensor sampling_locations;  // [B, Q, M, L, P, 2]
    Tensor attention_weights;   // [B, Q, M, L, P]
    int64_t B, K, M, D, Q, L, P;
    int64_t first_key = 0;  // of `value`, among those that level_start_index counts: see drop_unused_keys()

    int64_t samples() const { return product({L, P}); }  ///< of one query and head
    bool is_empty() const { return K == 0 || L == 0 || P == 0; }
    Level level(int64_t l) const;
    /// How often each cell is read, on average.
    bool reads_per_cell_reach(int64_t reads) const { return product({Q, samples(), 4}) >= product({K, reads}); }
};

/// What sampling_locations are: geometric kernel attention takes the same arguments, with locations in cells and of any type of
/// number.
enum class LocationUnit { kMap, kCell };

MsdaInputs view_msda_inputs(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                            const DLTensor *sampling_locations, const DLTensor *attention_weights,
                            LocationUnit unit = LocationUnit::kMap);

/// The output or its gradient: [B, Q, M * D] or [B, Q, M, D], as the latter.
Tensor view_output(const char *name, const DLTensor *tensor, const MsdaInputs &a);

struct MsdaForwardCall {
    MsdaInputs inputs;
    Tensor output;  // [B, Q, M, D]
};

struct MsdaBackwardCall {
    MsdaInputs inputs;
    Tensor grad_output;  // [B, Q, M, D]
    std::optional<Tensor> grad_value, grad_locations, grad_weights;
};

/// Geometric kernel attention takes and gives the same, but for the gradient of locations.
struct GkaForwardCall : MsdaForwardCall {};
struct GkaBackwardCall {
    MsdaInputs inputs;
    Tensor grad_output;
    std::optional<Tensor> grad_value, grad_weights;
};

/// The arguments of deformkit_msda_forward and deformkit_msda_backward. Checks throw a Failure.
MsdaForwardCall check_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                   const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                   const DLTensor *output);
MsdaBackwardCall check_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                     const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                     const DLTensor *grad_output, const DLTensor *grad_value,
                                     const DLTensor *grad_sampling_locations, const DLTensor *grad_attention_weights);

/// The same for deformkit_geometric_kernel_attention_forward and _backward.
GkaForwardCall check_gka_forward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                 const DLTensor *sampling_locations, const DLTensor *attention_weights, const DLTensor *output);
GkaBackwardCall check_gka_backward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                   const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                   const DLTensor *grad_output, const DLTensor *grad_value,
                                   const DLTensor *grad_attention_weights);

/// `value`, K and first_key are cut down to the keys that levels use, where kernels could not address all (used_keys.h).
void drop_unused_keys(MsdaInputs &a);

/// Batch items to take at once, so that copies of value stay within `bytes` and strides within 32 bits.
int64_t batches_at_once(const MsdaInputs &a, std::initializer_list<const Tensor *> others, int64_t bytes);

}  // namespace deformkit
