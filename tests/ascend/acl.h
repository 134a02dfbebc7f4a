// The vendor's interface in tests: a device for each test, tensors over guarded memory, both phases in one.
#pragma once

#include <acl/acl.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/guarded.h"

namespace deformkit::testing {

// Return codes of aclnn operators.
constexpr int kNullPointer = 161001, kInvalid = 161002, kRuntimeError = 361001;

class AclTest : public ::testing::Test {
protected:
    void SetUp() override { ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS); }
    void TearDown() override { EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS); }
};

/// The message of this thread's last failure, which it takes away.
std::string recent_message();

/// An aclTensor over the memory of a DLTensor, with exactly the storage that its elements span.
class AclTensor {
public:
    explicit AclTensor(const DLTensor &tensor);
    AclTensor(const AclTensor &) = delete;
    ~AclTensor() { aclDestroyTensor(tensor_); }
    operator aclTensor *() const { return tensor_; }

private:
    aclTensor *tensor_;
};

/// What a first phase gave.
struct Prepared {
    aclnnStatus status;
    uint64_t workspace_bytes = 0;
    aclOpExecutor *executor = nullptr;
};

using SecondPhase = aclnnStatus (*)(void *workspace, uint64_t size, aclOpExecutor *executor, aclrtStream stream);

/// The second phase in a workspace between guards, with exactly the bytes that were asked for, and waits. The first code that
/// is not ACL_SUCCESS, or that.
int run_to_end(SecondPhase second_phase, const Prepared &prepared, Guard guard = Guard::kAfter);

}  // namespace deformkit::testing
