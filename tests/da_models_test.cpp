// Deformable aggregation on shapes of real models and at published limits, on the variants that this machine would choose.
#include "tests/da_case.h"

namespace deformkit::testing {
namespace {

/// Tensors of many batches and anchors: 128 items, 2048 anchors, 6 cameras, 4 scales, 256 channels.
const DaWorkload kManyAnchors = {"many_anchors", 128, 2048, 1, 6, {{8, 10}, {4, 5}, {2, 3}, {1, 2}}, 8, 32, 1.0 / 6};
const DaWorkload kManyPoints = {"many_points", 2, 3, 2048, 6, {{32, 88}, {16, 44}, {8, 22}, {4, 11}}, 16, 16, 1.0 / 6};

void check(const DaWorkload &workload, DaCase::Pass pass) {
    const DaCase c(workload, Type::kF32, pass);
    const Outputs outputs = run(c);
    EXPECT_TRUE(matches(c, outputs, c.expected()));
    for (const std::vector<double> &output : outputs) {
        EXPECT_TRUE(holds_anything(output));
    }
}

TEST(DaModels, Sparse4dForward) {
    check(da_model_workloads()[0], DaCase::Pass::kForward);
}
TEST(DaModels, Sparse4dBackward) {
    check(da_model_workloads()[0], DaCase::Pass::kBackward);
}
TEST(DaModels, ExampleForward) {
    check(da_model_workloads()[2], DaCase::Pass::kForward);
}
TEST(DaModels, ExampleBackward) {
    check(da_model_workloads()[2], DaCase::Pass::kBackward);
}
TEST(DaModels, ManyAnchorsForward) {
    check(kManyAnchors, DaCase::Pass::kForward);
}
TEST(DaModels, ManyAnchorsBackward) {
    check(kManyAnchors, DaCase::Pass::kBackward);
}
TEST(DaModels, ManyPointsForward) {
    check(kManyPoints, DaCase::Pass::kForward);
}
TEST(DaModels, ManyPointsBackward) {
    check(kManyPoints, DaCase::Pass::kBackward);
}

}  // namespace
}  // namespace deformkit::testing
