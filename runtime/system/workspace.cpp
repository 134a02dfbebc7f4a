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

unsigned char *align(void *memory) {
    const auto address = reinterpret_cast<uintptr_t>(memory);
    return static_cast<unsigned char *>(memory) + (align_up(address) - address);
}

}  // namespace

struct WorkspaceRegion::Block {
    Block *previous;
    size_t end;
    bool released;
};

// A header in front, and behind the block room for a vector that starts inside and ends outside.
size_t workspace_block(size_t bytes) {
    static_assert(sizeof(void *) * 3 <= kScratchAlignment);
    return align_up(bytes) + 2 * kScratchAlignment;
}

size_t WorkspaceSize::total() const {
    const size_t bytes = align_up(call_bytes) + workers * align_up(worker_bytes);
    return bytes == 0 ? 0 : bytes + kScratchAlignment;  // to align what the caller brings
}

void *WorkspaceRegion::acquire(size_t bytes) noexcept {
    const size_t begin = last_ != nullptr ? last_->end : 0, taken = workspace_block(bytes);
    if (taken < bytes) {
        return nullptr;
    }
    most_used_ = std::max(most_used_, begin + taken);
    if (!measures() && taken > bytes_ - begin) {
        return nullptr;
    }
    void *memory = measures() ? system_acquire(taken) : begin_ + begin;
    if (memory == nullptr) {
        return nullptr;
    }
    last_ = new (memory) Block{last_, begin + taken, false};
    return static_cast<unsigned char *>(memory) + kScratchAlignment;
}

void WorkspaceRegion::release(void *pointer) noexcept {
    reinterpret_cast<Block *>(static_cast<unsigned char *>(pointer) - kScratchAlignment)->released = true;
    while (last_ != nullptr && last_->released) {
        Block *gone = last_;
        last_ = gone->previous;
        if (measures()) {
            system_release(gone);
        }
    }
}

WorkspaceRegion WorkspaceRegion::rest() const {
    const size_t begin = last_ != nullptr ? last_->end : 0;
    return {begin_ + begin, bytes_ - begin};
}

Workspace::Workspace(void *memory, const WorkspaceSize &size)
    : size_(size), memory_(align(memory)), region_(memory_, align_up(size.call_bytes)) {
    enter();
}

Workspace::Workspace() : size_{0, 0, 1}, memory_(nullptr) {
    enter();
}

void Workspace::enter() {
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
    if (region_.measures()) {
        return {};
    }
    if (i == 0 && alone_ != nullptr) {
        return alone_->rest();
    }
    const size_t bytes = align_up(size_.worker_bytes);
    return {memory_ + align_up(size_.call_bytes) + i * bytes, bytes};
}

void Workspace::note(const WorkspaceRegion &worker) {
    size_t most = worker_most_.load();
    while (most < worker.most_used() && !worker_most_.compare_exchange_weak(most, worker.most_used())) {
    }
}

Workspace *Workspace::current() {
    return current_workspace;
}

WorkspaceRegion *workspace_region() {
    return current_region;
}

WorkspaceScope::WorkspaceScope(WorkspaceRegion *region, Workspace *workspace)
    : outer_workspace_(current_workspace), outer_region_(current_region) {
    current_workspace = workspace;
    current_region = region;
}

WorkspaceScope::~WorkspaceScope() {
    current_workspace = outer_workspace_;
    current_region = outer_region_;
}

}  // namespace deformkit
