// How failures travel: an Error is thrown, and returning() turns it into the code and message that the caller sees.
#pragma once

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "acl/acl_base.h"
#include "runtime/interface/error.h"

namespace deformkit::ascend {

// Return codes of aclnn operators. The vendor's public headers do not define them, and programs that do must not find them
// here.
constexpr int kNullPointer = 161001;     // ACLNN_ERR_PARAM_NULLPTR
constexpr int kInvalid = 161002;         // ACLNN_ERR_PARAM_INVALID
constexpr int kRuntimeError = 361001;    // ACLNN_ERR_RUNTIME_ERROR
constexpr int kInner = 561000;           // ACLNN_ERR_INNER
constexpr int kNoKernel = 561003;        // ACLNN_ERR_INNER_FIND_KERNEL_ERROR
constexpr int kCreateExecutor = 561101;  // ACLNN_ERR_INNER_CREATE_EXECUTOR

class Error : public std::exception {
public:
    Error(int code, std::string message) : code_(code), message_(std::move(message)) {}

    int code() const { return code_; }
    const char *what() const noexcept override { return message_.c_str(); }

private:
    int code_;
    std::string message_;
};

/// Codes for what an interface does not throw as an Error itself.
struct Codes {
    int out_of_memory, internal;
};
constexpr Codes kAclCodes = {ACL_ERROR_RT_MEMORY_ALLOCATION, ACL_ERROR_RT_INTERNAL_ERROR};
constexpr Codes kAclnnCodes = {kCreateExecutor, kInner};

/// Keeps this thread's message for aclGetRecentErrMsg() and returns the code.
int record(int code, const char *message) noexcept;

template <typename Body>
int returning(const Codes &codes, Body &&body) noexcept {
    try {
        body();
        return ACL_SUCCESS;
    } catch (const Error &error) {
        return record(error.code(), error.what());
    } catch (const std::bad_alloc &) {
        return record(codes.out_of_memory, "out of memory");
    } catch (const std::exception &e) {
        return record(codes.internal, e.what());
    }
}

}  // namespace deformkit::ascend
