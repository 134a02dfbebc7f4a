#include "runtime/system/workspace.h"

#include <algorithm>
#include <cstdint>
#include <new>
#include <stdexcept>

#include "runtime/system/memory.h"

namespace deformkit {

namespace {

thread_local Workspace *current_workspace = nullptr;
thread_local WorkspaceRegion *current_region = nullptr;

size_t round_up(size_t bytes) {
    return (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
}

unsigned char *align(void *memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return static_cast<unsigned char *>(memory) + (round_up(address) - address);
}

}  // namespace

struct WorkspaceRegion::Block {
    Block *previous;
    unsigned char *end;
    bool released;
};

// A header in front, and behind the block room for a vector that starts inside and ends outside.
size_t workspace_block(size_t bytes) {
    static_assert(sizeof(void *) * 3 <= kScratchAlignment);
    return round_up(bytes) + 2 * kScratchAlignment;
}

size_t WorkspaceSize::total() const {
    const size_t bytes = round_up(call_bytes) + workers * round_up(worker_bytes);
    return bytes == 0 ? 0 : bytes + kScratchAlignment;  // to align what the caller brings
}

void *WorkspaceRegion::acquire(size_t bytes) noexcept {
    unsigned char *begin = last_ != nullptr ? last_->end : begin_;
    const size_t taken = workspace_block(bytes);
    if (taken < bytes) {
        return nullptr;
    }
    most_used_ = std::max(most_used_, begin - begin_ + taken);
    if (taken > static_cast<size_t>(end_ - begin)) {
        return nullptr;
    }
    last_ = new (begin) Block{last_, begin + taken, false};
    return begin + kScratchAlignment;
}

void WorkspaceRegion::release(void *pointer) noexcept {
    reinterpret_cast<Block *>(static_cast<unsigned char *>(pointer) - kScratchAlignment)->released = true;
    while (last_ != nullptr && last_->released) {
        last_ = last_->previous;
    }
}

Workspace::Workspace(void *memory, const WorkspaceSize &size)
    : size_(size), memory_(align(memory)), region_(memory_, round_up(size.call_bytes)) {
    if (current_region != nullptr) {
        throw std::logic_error("a workspace within a workspace");
    }
    current_workspace = this;
    current_region = &region_;
}

Workspace::~Workspace() {
    current_workspace = nullptr;
    current_region = nullptr;
}

WorkspaceRegion Workspace::worker(int i) const {
    const size_t bytes = round_up(size_.worker_bytes);
    return {memory_ + round_up(size_.call_bytes) + i * bytes, bytes};
}

void Workspace::note(const WorkspaceRegion &worker) {
    size_t most = worker_most_.load();
    while (most < worker.most_used() && !worker_most_.compare_exchange_weak(most, worker.most_used())) {
    }
}

WorkspaceSize measure_workspace(const std::function<void()> &call) {
    for (size_t bytes = size_t{1} << 20;; bytes *= 2) {
        const WorkspaceSize room{bytes, bytes, 1};
        const Scratch memory(room.total());
        const Workspace workspace(memory.data(), room);
        call();
        const WorkspaceSize used = workspace.used();
        if (used.call_bytes <= bytes && used.worker_bytes <= bytes) {
            return used;
        }
    }
}

Workspace *Workspace::current() {
    return current_workspace;
}

WorkspaceRegion *workspace_region() {
    return current_region;
}

WorkspaceScope::WorkspaceScope(WorkspaceRegion *region) : outer_workspace_(current_workspace), outer_region_(current_region) {
    current_workspace = nullptr;
    current_region = region;
}

WorkspaceScope::~WorkspaceScope() {
    current_workspace = outer_workspace_;
    current_region = outer_region_;
}

}  // namespace deformkit
