// Machines without OpenCL, and drivers that fail.
#include "tests/probe.h"

namespace deformkit::testing {
namespace {

// The OpenCL loader reads its drivers from a folder: without it, this is a machine without OpenCL.
TEST(OpenCl, WithoutADriverThereIsNoVariant) {
    const ChildResult forced = probe("OCL_ICD_VENDORS=/nonexistent DEFORMKIT_TARGET=opencl");
    EXPECT_TRUE(has_status(forced, DEFORMKIT_NO_VARIANT)) << forced.output;
    EXPECT_TRUE(contains(forced, "opencl")) << forced.output;
    const ChildResult free_choice = probe("OCL_ICD_VENDORS=/nonexistent");
    EXPECT_TRUE(has_status(free_choice, DEFORMKIT_OK)) << free_choice.output;
}

TEST(OpenCl, FailingDriverIsADeviceFailure) {
    if (!has_status(probe("DEFORMKIT_TARGET=opencl"), DEFORMKIT_OK)) {
        GTEST_SKIP() << "no OpenCL here";
    }
    // PoCL hands these to its compiler, which refuses them.
    const ChildResult result = probe("POCL_EXTRA_BUILD_FLAGS=--nonsense DEFORMKIT_TARGET=opencl");
    if (has_status(result, DEFORMKIT_OK)) {
        GTEST_SKIP() << "this OpenCL is not PoCL";
    }
    EXPECT_TRUE(has_status(result, DEFORMKIT_DEVICE_FAILURE)) << result.output;
    EXPECT_TRUE(contains(result, "msda_forward_f32_opencl")) << result.output;
}

}  // namespace
}  // namespace deformkit::testing
