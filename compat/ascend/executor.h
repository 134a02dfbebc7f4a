// The two phases of an operator: the first makes an executor, the second puts it in a stream's queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"
#include "compat/ascend/stream.h"
#include "runtime/system/workspace.h"

namespace deformkit::ascend {

class Executor : public Job {
public:
    /// `operation` is the name of the second phase.
    Executor(const char *operation, const WorkspaceSize &size) : operation_(operation), size_(size) {}

    const char *operation() const { return operation_; }
    uint64_t workspace_bytes() const { return size_.total(); }
    void run(void *workspace) final;

    std::atomic<bool> repeatable{false};

private:
    /// Within the workspace.
    virtual void run_in_workspace() = 0;

    const char *operation_;
    WorkspaceSize size_;
};

/// The end of a first phase.
void hand_out(std::shared_ptr<Executor> executor, uint64_t *workspace_size, aclOpExecutor **handle);

/// A whole second phase.
aclnnStatus launch(const char *operation, void *workspace, uint64_t workspace_size, aclOpExecutor *handle, aclrtStream stream);

}  // namespace deformkit::ascend
