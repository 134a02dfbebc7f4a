#include "runtime/cpu/plan.h"

#include <algorithm>
#include <atomic>

#include "runtime/dispatch/dispatch.h"
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

int64_t trial_size(int64_t n) {
    if (n <= 8) {
        return n;
    }
    return round_up(n, int64_t{1} << (61 - __builtin_clzll(n - 1)));
}

namespace {

/// Sizes by key. Read and written without waiting, since small calls ask too: who comes while an entry is written finds none.
class KnownSizes {
public:
    bool find(const TrialKey &key, WorkspaceSize &size) const {
        const Entry &entry = entries_[place(key)];
        const uint32_t version = entry.version.load(std::memory_order_acquire);
        bool same = version % 2 == 0 && version != 0;
        for (size_t i = 0; i < key.size(); i++) {
            same &= entry.key[i].load(std::memory_order_relaxed) == key[i];
        }
        size.call_bytes = entry.call_bytes.load(std::memory_order_relaxed);
        size.worker_bytes = entry.worker_bytes.load(std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_acquire);
        return same && entry.version.load(std::memory_order_relaxed) == version;
    }

    void add(const TrialKey &key, const WorkspaceSize &size) {
        Entry &entry = entries_[place(key)];
        uint32_t version = entry.version.load(std::memory_order_relaxed);
        if (version % 2 != 0 || !entry.version.compare_exchange_strong(version, version + 1, std::memory_order_relaxed)) {
            return;
        }
        std::atomic_thread_fence(std::memory_order_release);
        for (size_t i = 0; i < key.size(); i++) {
            entry.key[i].store(key[i], std::memory_order_relaxed);
        }
        entry.call_bytes.store(size.call_bytes, std::memory_order_relaxed);
        entry.worker_bytes.store(size.worker_bytes, std::memory_order_relaxed);
        entry.version.store(version + 2, std::memory_order_release);
    }

private:
    struct Entry {
        std::atomic<uint32_t> version{0};  // odd while it is written, 0 before
        std::atomic<int64_t> key[std::tuple_size_v<TrialKey>]{};
        std::atomic<size_t> call_bytes{0}, worker_bytes{0};
    };

    static size_t place(const TrialKey &key) {
        uint64_t hash = 0, factor = 0x9e3779b97f4a7c15u;
        for (const int64_t number : key) {
            hash += (static_cast<uint64_t>(number) ^ static_cast<uint64_t>(number) >> 32) * factor;
            factor *= 0xd1342543de82ef95u;
        }
        return hash >> 56;
    }

    Entry entries_[256];
};

KnownSizes known_sizes;

}  // namespace

void Plan::run() {
    set_last_variant("");
    if (is_nothing()) {
        clear_outputs();
        return;
    }
    const auto run_in_workspace = [&] {
        memory_.open();
        struct Close {
            CallMemory &memory;
            ~Close() { memory.close(); }
        } close{memory_};
        run_in_memory();
    };
    if (Workspace::current() != nullptr) {
        run_in_workspace();
        return;
    }
    const WorkspaceSize size = workspace();
    const KeptBlock block(size.total());
    const Workspace workspace(block.data(), size);
    run_in_workspace();
}

WorkspaceSize Plan::workspace() const {
    if (is_nothing()) {
        return {};
    }
    WorkspaceSize size = size_of_tasks();
    size.call_bytes += workspace_block(memory_.bytes());
    size.workers = threads_;
    return size;
}

WorkspaceSize Plan::size_of_tasks() const {
    const TrialKey key = trial_key();
    WorkspaceSize size;
    if (!known_sizes.find(key, size)) {
        TrialTensors tensors;
        const Workspace workspace;
        try_tasks(tensors);
        size = workspace.used();
        known_sizes.add(key, size);
    }
    return size;
}

}  // namespace deformkit
