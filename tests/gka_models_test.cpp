// Geometric kernel attention on shapes of real models, on the variants that this machine would choose.
#include "tests/gka_case.h"

namespace deformkit::testing {
namespace {

void check(const MsdaWorkload &workload, GkaCase::Pass pass) {
    const GkaCase c(workload, Type::kF32, pass);
    const Outputs outputs = run(c);
    EXPECT_TRUE(matches(c, outputs, c.expected()));
    for (const std::vector<double> &output : outputs) {
        EXPECT_TRUE(holds_anything(output));
    }
}

TEST(GkaModels, ExampleForward) {
    check(gka_model_workloads()[0], GkaCase::Pass::kForward);
}
TEST(GkaModels, ExampleBackward) {
    check(gka_model_workloads()[0], GkaCase::Pass::kBackward);
}
TEST(GkaModels, MappingForward) {
    check(gka_model_workloads()[1], GkaCase::Pass::kForward);
}
TEST(GkaModels, MappingBackward) {
    check(gka_model_workloads()[1], GkaCase::Pass::kBackward);
}

}  // namespace
}  // namespace deformkit::testing
