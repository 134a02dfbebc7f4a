// A child process inherits a library whose worker threads do not exist any more: it must still compute.
#include "tests/child.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

TEST(Fork, ChildComputesAfterParallelCallInParent) {
    const MsdaCase c = make_case({"", 2, 1500, 8, 32, {{25, 42}, {13, 21}}, 4, Locations::kNear});
    ASSERT_EQ(deformkit_set_num_threads(4), DEFORMKIT_OK);
    const std::vector<double> expected = run(c);
    ASSERT_TRUE(matches_reference(c, expected));
    for (int repeat = 0; repeat < 5; repeat++) {
        MsdaTensors tensors(c);
        const ChildResult child = run_in_fork(
            [&] { return tensors.call() == DEFORMKIT_OK && same_bits(tensors.output.load_numbers(), expected) ? 0 : 1; });
        EXPECT_EQ(child.status, 0) << child.output;
        EXPECT_TRUE(same_bits(run(c), expected)) << "in the parent, afterwards";
    }
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

}  // namespace
}  // namespace deformkit::testing
