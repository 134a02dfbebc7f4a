// A child process inherits a library whose worker threads do not exist any more: it must still compute.
#include "tests/child.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

TEST(Fork, ChildComputesAfterParallelCallInParent) {
    const MsdaCase c({"", 2, 1500, 8, 32, {{25, 42}, {13, 21}}, 4, Locations::kNear}, Type::kF32, Pass::kForward);
    ASSERT_EQ(deformkit_set_num_threads(4), DEFORMKIT_OK);
    const Outputs expected = run(c);
    ASSERT_TRUE(matches(c, expected));
    for (int repeat = 0; repeat < 5; repeat++) {
        const ProblemTensors tensors(c);
        const ChildResult child =
            run_in_fork([&] { return tensors.call() == DEFORMKIT_OK && same_bits(tensors.outputs(), expected) ? 0 : 1; });
        EXPECT_EQ(child.status, 0) << child.output;
        EXPECT_TRUE(same_bits(run(c), expected)) << "in the parent, afterwards";
    }
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

}  // namespace
}  // namespace deformkit::testing
