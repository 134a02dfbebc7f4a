#include "compat/ascend/executor.h"

#include <cstring>
#include <string>

#include "compat/ascend/status.h"
#include "runtime/interface/error.h"

namespace deformkit::ascend {

namespace {

Handles<Executor> &executors() {
    static auto *all = new Handles<Executor>;
    return *all;
}

[[noreturn]] void fail_unknown() {
    throw Error(kInvalid, "executor: expected one from aclnn...GetWorkspaceSize that has not been used or destroyed");
}

}  // namespace

void Executor::run(void *workspace) {
    const std::lock_guard<std::mutex> lock(mutex_);
    try {
        const Workspace scope(workspace, size_);
        plan_->run();
    } catch (const Failure &failure) {
        throw Error(failure.status() == DEFORMKIT_OUT_OF_MEMORY ? ACL_ERROR_RT_MEMORY_ALLOCATION : ACL_ERROR_RT_INTERNAL_ERROR,
                    std::string(operation_) + ": " + failure.what());
    } catch (const std::bad_alloc &) {
        throw Error(ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(operation_) + ": the workspace is used up");
    }
}

void hand_out(std::shared_ptr<Executor> executor, uint64_t *workspace_size, aclOpExecutor **handle) {
    *workspace_size = executor->workspace_bytes();
    *handle = static_cast<aclOpExecutor *>(executors().add(std::move(executor)));
}

aclnnStatus launch(const char *operation, void *workspace, uint64_t workspace_size, aclOpExecutor *handle, aclrtStream stream) {
    return returning({kRuntimeError, kInner}, [&] {
        if (handle == nullptr) {
            throw Error(kNullPointer, "executor: expected one, got NULL");
        }
        std::shared_ptr<Executor> executor = executors().find(handle);
        if (executor == nullptr) {
            fail_unknown();
        }
        if (std::strcmp(executor->operation(), operation) != 0) {
            throw Error(kInvalid,
                        std::string("executor: expected one for ") + operation + ", got one for " + executor->operation());
        }
        if (const uint64_t needed = executor->workspace_bytes(); needed > 0) {
            if (workspace == nullptr) {
                throw Error(kNullPointer, "workspace: expected " + std::to_string(needed) + " bytes, got NULL");
            }
            if (workspace_size < needed) {
                throw Error(kInvalid, "workspaceSize: expected at least " + std::to_string(needed) + ", got " +
                                          std::to_string(workspace_size));
            }
        }
        const auto in_runtime = [](auto &&body) {
            try {
                return body();
            } catch (const Error &error) {
                throw Error(kRuntimeError, error.what());
            }
        };
        const std::shared_ptr<Stream> queue = in_runtime([&] { return stream_of(stream); });
        if (!executor->repeatable && executors().take(handle) == nullptr) {
            fail_unknown();
        }
        in_runtime([&] { queue->submit(std::move(executor), workspace); });
    });
}

}  // namespace deformkit::ascend

using namespace deformkit::ascend;

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor *executor) {
    return returning(kAclnnCodes, [&] {
        const std::shared_ptr<Executor> found = executors().find(executor);
        if (found == nullptr) {
            fail_unknown();
        }
        found->repeatable = true;
    });
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor *executor) {
    return returning(kAclnnCodes, [&] {
        if (executors().take(executor) == nullptr) {
            fail_unknown();
        }
    });
}
