// Multi-scale deformable attention in steps, for callers inside the library: check, ask for the size of a workspace, run.
#pragma once

#include "tensor.h"
#include "workspace.h"

namespace deformkit {

struct MsdaSizes {
    int64_t B, K, M, D, Q, L, P;
};

struct MsdaForwardArguments {
    Tensor value;               // [B, K, M, D]
    Tensor spatial_shapes;      // [L, 2]
    Tensor level_start_index;   // [L]
    Tensor sampling_locations;  // [B, Q, M, L, P, 2]
    Tensor attention_weights;   // [B, Q, M, L, P]
    Tensor output;              // [B, Q, M, D]
    MsdaSizes n;
};

/// The arguments of deformkit_msda_forward, checked: throws a Failure. Does not look at what the tensors hold.
MsdaForwardArguments msda_forward_arguments(const DLTensor *value, const DLTensor *spatial_shapes,
                                            const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                            const DLTensor *attention_weights, const DLTensor *output);

/// Enough for msda_forward of these arguments on num_threads() threads, whatever the tensors hold.
WorkspaceSize msda_forward_workspace(const MsdaForwardArguments &arguments);

/// In a workspace it allocates nothing.
void msda_forward(MsdaForwardArguments arguments);

}  // namespace deformkit
