#include "runtime/cpu/plan.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/dispatch/dispatch.h"
#include "runtime/system/locks.h"
#include "runtime/tensor/layout.h"

namespace deformkit {

Tensor TrialTensors::make(const Tensor &like, int dense) {
    Tensor tensor = like;
    int64_t elements = 1;
    for (int axis = tensor.ndim - 1; axis >= 0; axis--) {
        tensor.strides[axis] = axis >= tensor.ndim - dense ? elements : 0;
        elements *= axis >= tensor.ndim - dense ? tensor.shape[axis] : 1;
    }
    // As much again behind, for vectors that end outside.
    memory_.emplace_back(elements * tensor.element_bytes() + kScratchAlignment);
    tensor.data = memory_.back().data();
    return tensor;
}

Tensor TrialTensors::make(DLDataType dtype, std::initializer_list<int64_t> shape, int dense) {
    Tensor like;
    like.dtype = dtype;
    like.ndim = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), like.shape.begin());
    return make(like, dense);
}

LevelTable TrialTensors::make_levels(int64_t columns) {
    LevelTable table;
    table.columns = table.pitch = columns;
    table.rows = reinterpret_cast<int32_t *>(make({kDLInt, 32, 1}, {3, columns}, 2).data);
    std::fill_n(table.rows, 2 * columns, 1);
    return table;
}

void Plan::run() {
    set_last_variant("");
    if (is_nothing()) {
        clear_outputs();
        return;
    }
    memory_.open();
    struct Close {
        CallMemory &memory;
        ~Close() { memory.close(); }
    } close{memory_};
    run_in_memory();
}

namespace {

using KnownSizes = std::map<std::vector<int64_t>, WorkspaceSize>;

KnownSizes *known_sizes = nullptr;  // guarded by Lock::kWorkspaceSizes

/// The threads that may still call when the program ends find none, instead of one that has been destroyed.
[[gnu::destructor]] void forget_sizes() {
    std::lock_guard<std::mutex> lock(mutex_of(Lock::kWorkspaceSizes));
    delete std::exchange(known_sizes, nullptr);
}

}  // namespace

WorkspaceSize Plan::workspace() const {
    constexpr size_t kMostKnown = 256;

    if (is_nothing()) {
        return {};
    }
    const std::vector<int64_t> key = trial_key();
    std::lock_guard<std::mutex> lock(mutex_of(Lock::kWorkspaceSizes));
    if (known_sizes == nullptr) {
        known_sizes = new KnownSizes;
    }
    KnownSizes &known = *known_sizes;
    auto entry = known.find(key);
    if (entry == known.end()) {
        TrialTensors tensors;
        const WorkspaceSize tasks = measure_workspace([&] { try_tasks(tensors); });
        if (known.size() == kMostKnown) {
            known.clear();
        }
        entry = known.emplace(key, tasks).first;
    }
    WorkspaceSize size = entry->second;
    size.call_bytes += workspace_block(memory_.bytes());
    size.workers = threads_;
    return size;
}

}  // namespace deformkit
