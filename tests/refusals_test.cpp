// Calls of every operator that have to be refused, argument by argument, and odd ones that have not.
#include "tests/checks.h"
#include "tests/da_case.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

// Extents that differ from each other, so that a wrong one is not by chance another's, and a number in a message says which.
const MsdaWorkload kMsda = {"", 8, 4, 3, 5, {{4, 6}, {1, 7}}, 9, Locations::kWide};
const DaWorkload kDa = {"", 2, 7, 5, 3, {{4, 6}, {3, 3}, {2, 2}, {1, 1}}, 8, 16, 0.5};
// As many weights as outputs, and rows of memory that can be shared.
const MsdaWorkload kSmallMsda = {"", 2, 5, 3, 4, {{4, 6}, {1, 7}}, 2, Locations::kWide};
const DaWorkload kSmallDa = {"", 2, 5, 2, 2, {{3, 4}, {2, 2}}, 2, 6, 0.5};

template <typename Case, typename Workload>
void check_odd_calls(const Workload &small, const std::vector<Workload> &odd) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        SCOPED_TRACE(pass == Pass::kForward ? "forward" : "backward");
        check_overlaps(Case(small, Type::kF32, pass));
        check_accepted(Case(small, Type::kF32, pass));
        for (const Workload &workload : odd) {
            SCOPED_TRACE(workload.name);
            const Case c(workload, Type::kF32, pass);
            check_accepted(c);
            if (c.is_trivial()) {
                EXPECT_TRUE(all_zero(run(c)));
                EXPECT_STREQ(deformkit_last_variant(), "") << "no kernel is needed";
            }
        }
    }
}

/// Empty tensors, and axes of one element.
template <typename Workload>
std::vector<Workload> odd_workloads(const std::vector<Workload> &awkward) {
    std::vector<Workload> odd;
    for (const Workload &workload : awkward) {
        if (workload.name.rfind("no_", 0) == 0 || workload.name.rfind("one_", 0) == 0) {
            odd.push_back(workload);
        }
    }
    return odd;
}

TEST(Refusals, Msda) {
    // Any number of keys will do. Channels show only in the output, as M * D.
    check_refusals(MsdaCase(kMsda, Type::kF32, Pass::kForward), {{"value", 1}}, {{"value", 3}});
    check_refusals(MsdaCase(kMsda, Type::kF32, Pass::kBackward), {}, {{"value", 3}});
}

TEST(Refusals, Da) {
    // Channels are no multiple of the groups then.
    check_refusals(DaCase(kDa, Type::kF32, Pass::kForward), {{"feature_maps", 1}}, {{"feature_maps", 2}});
    check_refusals(DaCase(kDa, Type::kF32, Pass::kBackward), {}, {{"feature_maps", 2}});
}

TEST(Refusals, Gka) {
    check_refusals(GkaCase(kMsda, Type::kF32, Pass::kForward), {{"value", 1}}, {{"value", 3}});
    check_refusals(GkaCase(kMsda, Type::kF32, Pass::kBackward), {}, {{"value", 3}});
}

TEST(OddCalls, Msda) {
    check_odd_calls<MsdaCase>(kSmallMsda, odd_workloads(msda_awkward_workloads()));
}

TEST(OddCalls, Da) {
    check_odd_calls<DaCase>(kSmallDa, odd_workloads(da_awkward_workloads()));
}

TEST(OddCalls, Gka) {
    check_odd_calls<GkaCase>(kSmallMsda, odd_workloads(msda_awkward_workloads()));
}

TEST(Refusals, GroupsThatDoNotDivideTheChannels) {
    DaWorkload workload = kDa;
    workload.groups = 3;
    workload.channels = 4;
    const DaCase c(workload, Type::kF32, Pass::kForward);
    const ProblemTensors t(c);
    t["weights"].dl()->shape[5] = 5;
    EXPECT_EQ(t.call(), DEFORMKIT_WRONG_SHAPE);
    EXPECT_NE(std::string(deformkit_last_error()).find("12"), std::string::npos) << deformkit_last_error();
    EXPECT_NE(std::string(deformkit_last_error()).find("weights"), std::string::npos) << deformkit_last_error();
    EXPECT_TRUE(t.outputs_untouched());
}

}  // namespace
}  // namespace deformkit::testing
