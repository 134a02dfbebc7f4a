// Cells are addressed by 32 bits. Where value or feature_maps are larger than that, what lies before the first level and behind
// the last can go: no sample reaches it. Kernels of GPUs take value as it is.
#pragma once

#include <optional>
#include <utility>

#include "runtime/cpu/plan.h"
#include "runtime/gpu/run.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

template <typename Call>
void run_on_used_keys(Call call) {
    if (runs_on_gpu(call.inputs)) {
        run_on_gpu(call);
        return;
    }
    drop_unused_keys(call.inputs);
    run(call);
}

/// The same of a backward call with the gradient of cells: what is dropped of it is cleared.
template <typename Call>
void run_on_used_keys(Call call, std::optional<Tensor> Call::*gradient) {
    if (runs_on_gpu(call.inputs)) {
        run_on_gpu(call);
        return;
    }
    drop_unused_keys(call.inputs);
    if (!(call.*gradient) || (call.*gradient)->shape[1] == call.inputs.K) {
        run(call);
        return;
    }
    const Tensor all = *(call.*gradient);
    const int64_t first = call.inputs.first_key, end = first + call.inputs.K;
    call.*gradient = slice(all, 1, first, call.inputs.K);
    run(call);
    fill_zero(slice(all, 1, 0, first));
    fill_zero(slice(all, 1, end, all.shape[1] - end));
}

}  // namespace deformkit
