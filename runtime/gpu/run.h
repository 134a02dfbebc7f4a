// Calls on a GPU: on tensors in its memory, or, where that is asked for, on copies of tensors in host memory.
#pragma once

#include "runtime/interface/da.h"
#include "runtime/interface/msda.h"

namespace deformkit {

/// Whether a call with these inputs runs on a GPU.
bool runs_on_gpu(const MsdaInputs &inputs);
bool runs_on_gpu(const DaInputs &inputs);

/// Runs a checked call. Indices are not looked at on the host: that would wait for the device.
void run_on_gpu(const MsdaForwardCall &call);
void run_on_gpu(const MsdaBackwardCall &call);
void run_on_gpu(const DaForwardCall &call);
void run_on_gpu(const DaBackwardCall &call);
void run_on_gpu(const GkaForwardCall &call);
void run_on_gpu(const GkaBackwardCall &call);

}  // namespace deformkit
