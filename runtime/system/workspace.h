// A caller's block of memory from which all scratch of one call is taken, so that the call allocates nothing.
#pragma once

#include <cstddef>

namespace deformkit {

/// What a block of scratch of `bytes` takes from a workspace.
size_t workspace_block(size_t bytes);

/// A call takes `call_bytes` on its own thread, and `lane_bytes` on each of the `lanes` threads that at most run its parallel
/// loops: sums of workspace_block() over what is held at the same time. All zero: the call needs none.
struct WorkspaceSize {
    size_t call_bytes = 0;
    size_t lane_bytes = 0;
    int lanes = 0;

    size_t total() const;
};

/// A stack of blocks, which leave in about the reverse order of their arrival.
class WorkspaceRegion {
public:
    WorkspaceRegion(unsigned char *begin, size_t bytes) : begin_(begin), end_(begin + bytes) {}

    void *acquire(size_t bytes) noexcept;  ///< nullptr when there is no room
    void release(void *pointer) noexcept;
    bool holds(const void *pointer) const { return pointer >= begin_ && pointer < end_; }

private:
    struct Block;
    unsigned char *begin_, *end_;
    Block *last_ = nullptr;
};

/// While one lives, scratch of its thread comes from it, and scratch of the threads that run its parallel loops. When it is
/// used up there is no more: nothing is allocated instead.
class Workspace {
public:
    /// `memory` holds size.total() bytes, aligned or not.
    Workspace(void *memory, const WorkspaceSize &size);
    ~Workspace();
    Workspace(const Workspace &) = delete;
    Workspace &operator=(const Workspace &) = delete;

    int lanes() const { return size_.lanes; }
    WorkspaceRegion lane(int i) const;

    /// The one whose call this thread is making; nullptr also where it runs a task of a parallel loop.
    static Workspace *current();

private:
    WorkspaceSize size_;
    unsigned char *memory_;
    WorkspaceRegion region_;
};

/// Where this thread takes its scratch from, or nullptr: from what is kept between calls.
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
