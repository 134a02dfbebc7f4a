// Calls of deformable aggregation and geometric kernel attention that have to be refused, argument by argument.
#include "tests/da_case.h"
#include "tests/gka_case.h"

namespace deformkit::testing {
namespace {

// Extents that differ from each other, so that a wrong one is not by chance another's.
const DaWorkload kDa = {"", 2, 7, 5, 3, {{4, 6}, {3, 3}, {2, 2}, {1, 1}}, 8, 16, 0.5};
const MsdaWorkload kGka = {"", 8, 4, 3, 5, {{4, 6}, {1, 7}}, 9, Locations::kWide};

TEST(Refusals, DaForward) {
    // Free: the number of cells, and of groups as long as it divides the channels.
    check_refusals(DaCase(kDa, Type::kF32, DaCase::Pass::kForward), {{0, 1}}, false);
}

TEST(Refusals, DaBackward) {
    check_refusals(DaCase(kDa, Type::kF32, DaCase::Pass::kBackward), {}, true);
}

TEST(Refusals, GkaForward) {
    check_refusals(GkaCase(kGka, Type::kF32, GkaCase::Pass::kForward), {{0, 1}}, false);
}

TEST(Refusals, GkaBackward) {
    check_refusals(GkaCase(kGka, Type::kF32, GkaCase::Pass::kBackward), {}, true);
}

TEST(Refusals, GroupsThatDoNotDivideTheChannels) {
    DaWorkload workload = kDa;
    workload.groups = 3;
    workload.channels = 4;
    const DaCase c(workload, Type::kF32, DaCase::Pass::kForward);
    const ProblemTensors t(c);
    t.arguments[4]->shape[5] = 5;
    EXPECT_EQ(t.call(), DEFORMKIT_WRONG_SHAPE);
    EXPECT_NE(std::string(deformkit_last_error()).find("12"), std::string::npos) << deformkit_last_error();
    EXPECT_NE(std::string(deformkit_last_error()).find("weights"), std::string::npos) << deformkit_last_error();
    EXPECT_TRUE(t.tensors[5]->all_poison());
}

}  // namespace
}  // namespace deformkit::testing
