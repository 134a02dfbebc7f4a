// One call on a GPU: its kernels, in order.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "runtime/cpu/plan.h"
#include "runtime/dispatch/dispatch.h"
#include "runtime/gpu/device_tensor.h"

namespace deformkit {

/// Of tensors in host memory: copies of them are made as the call runs.
class GpuPlan : public Plan {
protected:
    void try_tasks(TrialTensors &) const override {}
    std::vector<int64_t> trial_key() const override { return {0}; }
};

/// Runs a kernel on its device. Arguments as it takes them, without the first, the context. What is an output comes back.
void run_gpu_kernel(const Variant &variant, const std::vector<void *> &args, std::initializer_list<DeviceTensor *> outputs);

/// A kernel that adds up `gradient` in float32, with `args` for its sums; then they are rounded.
void scatter(const Variant &kernel, const Tensor &gradient, const std::function<std::vector<void *>(DeviceTensor &sums)> &args);

/// Batch items at once, so that tensors have fewer than 2^31 elements.
int64_t gpu_batches(const MsdaInputs &a, const Tensor &rows);

/// Queries of a block of threads, each of which takes `lanes` threads and so much shared memory.
int32_t query_tile(int64_t block_threads, int64_t lanes, int64_t query_bytes);

/// Threads that share a dot product: a divisor of `lanes`, at most `most`.
int32_t dot_lanes(int32_t lanes, int64_t most);

std::unique_ptr<Plan> gpu_plan(const MsdaForwardCall &call, const Variant &kernel);
std::unique_ptr<Plan> gpu_plan(const MsdaBackwardCall &call, const Variant &samples_kernel);
std::unique_ptr<Plan> gpu_plan(const GkaForwardCall &call, const Variant &kernel);
std::unique_ptr<Plan> gpu_plan(const GkaBackwardCall &call, const Variant &samples_kernel);
std::unique_ptr<Plan> gpu_plan(const DaForwardCall &call, const Variant &kernel);
std::unique_ptr<Plan> gpu_plan(const DaBackwardCall &call, const Variant &samples_kernel);

}  // namespace deformkit
