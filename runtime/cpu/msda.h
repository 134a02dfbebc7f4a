// Multi-scale deformable attention in steps, for callers inside the library: check, ask for the size of a workspace, run.
//
// Checks throw a Failure. The size of a workspace is enough on num_threads() threads, whatever the tensors hold; in one,
// running allocates nothing.
#pragma once

#include <optional>

#include "runtime/interface/msda_inputs.h"
#include "runtime/system/workspace.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

struct MsdaForwardCall {
    MsdaInputs inputs;
    Tensor output;  // [B, Q, M, D]
};

/// The arguments of deformkit_msda_forward.
MsdaForwardCall check_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                   const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                   const DLTensor *output);
WorkspaceSize msda_forward_workspace(const MsdaForwardCall &call);
void msda_forward(MsdaForwardCall call);

struct MsdaBackwardCall {
    MsdaInputs inputs;
    Tensor grad_output;  // [B, Q, M, D]
    std::optional<Tensor> grad_value, grad_locations, grad_weights;
};

/// The arguments of deformkit_msda_backward.
MsdaBackwardCall check_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                     const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                     const DLTensor *grad_output, const DLTensor *grad_value,
                                     const DLTensor *grad_sampling_locations, const DLTensor *grad_attention_weights);
WorkspaceSize msda_backward_workspace(const MsdaBackwardCall &call);
void msda_backward(MsdaBackwardCall call);

}  // namespace deformkit
