// A block of memory, a caller's or one that is kept between calls, from which all scratch of one call is taken, so that once the
// call has it, nothing is allocated any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

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
    WorkspaceRegion(unsigned char *begin, size_t bytes) : begin_(begin), bytes_(bytes) {}
    /// Has room for everything, in the system's memory: to find out how much that is.
    WorkspaceRegion() : measures_(true) {}

    void *acquire(size_t bytes) noexcept;  ///< nullptr when there is no room
    void release(void *pointer) noexcept;
    bool measures() const { return measures_; }
    bool holds(const void *pointer) const { return measures_ || (pointer >= begin_ && pointer < begin_ + bytes_); }
    /// What there would have to be room for.
    size_t most_used() const { return most_used_; }
    /// What no block of it takes.
    WorkspaceRegion rest() const;

private:
    struct Block;
    bool measures_ = false;
    unsigned char *begin_ = nullptr;
    size_t bytes_ = 0;
    Block *last_ = nullptr;
    size_t most_used_ = 0;
};

/// While one lives, scratch of its thread comes from it, and scratch of the threads that run its parallel loops. What it has no
/// room for comes from where scratch comes from otherwise.
class Workspace {
public:
    /// `memory` holds size.total() bytes, aligned or not.
    Workspace(void *memory, const WorkspaceSize &size);
    /// Measures, with one worker.
    Workspace();
    ~Workspace();
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;

    int workers() const { return size_.workers; }
    WorkspaceRegion worker(int i) const;
    /// This thread's task is the only one of its loop, in the region that `alone` is, worker 0's: loops within it have the rest of
    /// that, and the other workers. Returned: what was before.
    const WorkspaceRegion *set_alone(const WorkspaceRegion *alone) { return std::exchange(alone_, alone); }
    /// What the call has used so far, and the worker that used most.
    WorkspaceSize used() const { return {region_.most_used(), worker_most_.load(), size_.workers}; }
    void note(const WorkspaceRegion &worker);

    /// The one whose call this thread is making; nullptr also where it runs a task of a parallel loop.
    static Workspace *current();

private:
    void enter();

    WorkspaceSize size_;
    unsigned char *memory_;
    WorkspaceRegion region_;
    const WorkspaceRegion *alone_ = nullptr;
    std::atomic<size_t> worker_most_{0};
};

/// Where this thread takes its scratch from first, or nullptr.
WorkspaceRegion *workspace_region();

/// This thread works in another region, or in none, until the end of the scope. What it calls takes no part in `workspace`, unless
/// that is said.
class WorkspaceScope {
public:
    explicit WorkspaceScope(WorkspaceRegion *region, Workspace *workspace = nullptr);
    ~WorkspaceScope();
    WorkspaceScope(const WorkspaceScope &) = delete;
    WorkspaceScope &operator=(const WorkspaceScope &) = delete;

private:
    Workspace *outer_workspace_;
    WorkspaceRegion *outer_region_;
};

}  // namespace deformkit
