// The two phases of an operator: the first makes an executor, the second puts it in a stream's queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"
#include "compat/ascend/stream.h"
#include "runtime/cpu/plan.h"
#include "runtime/system/workspace.h"

namespace deformkit::ascend {

class Executor : public Job {
public:
    /// `operation` is the name of the second phase.
    Executor(const char *operation, std::unique_ptr<Plan> plan)
        : operation_(operation), plan_(std::move(plan)), size_(plan_->workspace()) {}

    const char *operation() const { return operation_; }
    uint64_t workspace_bytes() const { return size_.total(); }
    void run(void *workspace) final;

    std::atomic<bool> repeatable{false};

private:
    const char *operation_;
    std::mutex mutex_;  // streams may share an executor, but a plan makes one call at a time
    std::unique_ptr<Plan> plan_;
    WorkspaceSize size_;
};

/// The end of a first phase.
void hand_out(std::shared_ptr<Executor> executor, uint64_t *workspace_size, aclOpExecutor **handle);

/// A whole second phase.
aclnnStatus launch(const char *operation, void *workspace, uint64_t workspace_size, aclOpExecutor *handle, aclrtStream stream);

}  // namespace deformkit::ascend
