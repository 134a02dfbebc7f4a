// A caller's block of memory from which all scratch of one call is taken, so that the call allocates nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

namespace deformkit {

/// What a block of scratch of `bytes` takes from a workspace.
size_t workspace_block(size_t bytes);

/// A call takes `call_bytes` on its own thread, and `worker_bytes` on each of the `workers` threads that at most run its
/// parallel loops: sums of workspace_block() over what is held at the same time. All zero: the call needs none.
struct WorkspaceSize {
    size_t call_bytes = 0;
    size_t worker_bytes = 0;
    int workers = 0;

    size_t total() const;
};

/// A stack of blocks, which leave in about the reverse order of their arrival.
class WorkspaceRegion {
public:
    WorkspaceRegion(unsigned char *begin, size_t bytes) : begin_(begin), end_(begin + bytes) {}

    void *acquire(size_t bytes) noexcept;  ///< nullptr when there is no room
    void release(void *pointer) noexcept;
    bool holds(const void *pointer) const { return pointer >= begin_ && pointer < end_; }
    /// What there would have to be room for.
    size_t most_used() const { return most_used_; }

private:
    struct Block;
    unsigned char *begin_, *end_;
    Block *last_ = nullptr;
    size_t most_used_ = 0;
};

/// While one lives, scratch of its thread comes from it, and scratch of the threads that run its parallel loops. What it has no
/// room for comes from where scratch comes from otherwise.
class Workspace {
public:
    /// `memory` holds size.total() bytes, aligned or not.
    Workspace(void *memory, const WorkspaceSize &size);
    ~Workspace();
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;

    int workers() const { return size_.workers; }
    WorkspaceRegion worker(int i) const;
    /// What the call has used so far, and the worker that used most.
    WorkspaceSize used() const { return {region_.most_used(), worker_most_.load(), size_.workers}; }
    void note(const WorkspaceRegion &worker);

    /// The one whose call this thread is making; nullptr also where it runs a task of a parallel loop.
    static Workspace *current();

private:
    WorkspaceSize size_;
    unsigned char *memory_;
    WorkspaceRegion region_;
    std::atomic<size_t> worker_most_{0};
};

/// What `call` takes of a workspace for one worker, itself included: found out by making it.
WorkspaceSize measure_workspace(const std::function<void()> &call);

/// Where this thread takes its scratch from first, or nullptr.
WorkspaceRegion *workspace_region();

/// This thread works in another region, or in none, until the end of the scope.
class WorkspaceScope {
public:
    explicit WorkspaceScope(WorkspaceRegion *region);
    ~WorkspaceScope();
    WorkspaceScope(const WorkspaceScope &) = delete;
    WorkspaceScope &operator=(const WorkspaceScope &) = delete;

private:
    Workspace *outer_workspace_;
    WorkspaceRegion *outer_region_;
};

}  // namespace deformkit
