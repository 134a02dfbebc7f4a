#include "runtime/gpu/plan.h"

#include <algorithm>

#include "runtime/dispatch/kernel.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

void run_gpu_kernel(const Variant &variant, const std::vector<void *> &args, std::initializer_list<DeviceTensor *> outputs) {
    void *context = nullptr;
    std::vector<void *> all = {&context};
    all.insert(all.end(), args.begin(), args.end());
    run_kernel(variant, all.data());
    for (DeviceTensor *output : outputs) {
        run_on(variant, [&] { return halide_copy_to_host(nullptr, output->get()); });
        output->store();
    }
}

void scatter(const Variant &kernel, const Tensor &gradient,
             const std::function<std::vector<void *>(DeviceTensor &sums)> &args) {
    if (gradient.dtype.bits == 32) {
        DeviceTensor sums(gradient, Elements::kNumbers, true);
        run_gpu_kernel(kernel, args(sums), {&sums});
        return;
    }
    std::vector<unsigned char> memory(gradient.elements() * sizeof(float));
    Tensor wide = dense_like(gradient, memory.data());
    wide.dtype = {kDLFloat, 32, 1};
    DeviceTensor sums(wide, Elements::kNumbers, true), rounded(gradient, Elements::kNumbers, true);
    run_gpu_kernel(kernel, args(sums), {});
    run_gpu_kernel(*companion(kernel, "convert_narrow"), {sums.get(), rounded.get()}, {&rounded});
}

int64_t gpu_batches(const MsdaInputs &a, const Tensor &rows) {
    int64_t most = 1;
    for (const Tensor *tensor : {&a.value, &a.sampling_locations, &rows}) {
        most = std::max(most, tensor->elements() / tensor->shape[0] * 2);  // channels are filled up
    }
    return std::clamp<int64_t>(INT32_MAX / most, 1, a.B);
}

int32_t query_tile(int64_t block_threads, int64_t lanes, int64_t query_bytes) {
    constexpr int64_t kMost = 64, kSharedBytes = 46 << 10;
    return static_cast<int32_t>(std::clamp<int64_t>(std::min(block_threads / lanes, kSharedBytes / query_bytes), 1, kMost));
}

int32_t dot_lanes(int32_t lanes, int64_t most) {
    int32_t parts = 1;
    while (lanes % parts != 0 || lanes / parts > most) {
        parts++;
    }
    return lanes / parts;
}

}  // namespace deformkit
