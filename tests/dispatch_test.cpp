// Which variant runs: the first that this machine supports, unless one is forced.
#include <algorithm>
#include <set>

#include "tests/msda_case.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

TEST(Dispatch, EveryCpuRowIsReachable) {
    int reached = 0;
    for (const Variant &variant : all_variants()) {
        if (variant.op != "msda" || variant.pass != "forward") {
            continue;
        }
        ASSERT_EQ(deformkit_set_target(variant.target.c_str()), DEFORMKIT_OK) << deformkit_last_error();
        const deformkit_status status = try_msda_forward(variant.type());
        switch (availability_of(variant.target)) {
            case Availability::kYes:
                EXPECT_EQ(status, DEFORMKIT_OK) << variant.target << ": " << deformkit_last_error();
                break;
            case Availability::kNo:
                EXPECT_EQ(status, DEFORMKIT_NO_VARIANT) << variant.target;
                break;
            case Availability::kAsk:
                EXPECT_TRUE(status == DEFORMKIT_OK || status == DEFORMKIT_NO_VARIANT)
                    << status << ": " << deformkit_last_error();
                break;
        }
        if (status == DEFORMKIT_OK) {
            EXPECT_EQ(deformkit_last_variant(), variant.name());
            reached++;
        } else {
            EXPECT_NE(std::string(deformkit_last_error()).find(variant.target), std::string::npos) << deformkit_last_error();
        }
    }
    EXPECT_GE(reached, 1);
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
}

TEST(Dispatch, FreeChoiceIsTheFirstSupportedCpuRow) {
    for (const Type type : kAllTypes) {
        std::string best;
        for (const Variant &variant : all_variants()) {
            if (best.empty() && variant.op == "msda" && variant.pass == "forward" && variant.type() == type &&
                availability_of(variant.target) == Availability::kYes) {
                best = variant.name();
            }
        }
        ASSERT_NE(best, "") << "the last CPU row has to run everywhere";
        ASSERT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
        EXPECT_EQ(try_msda_forward(type), DEFORMKIT_OK) << deformkit_last_error();
        EXPECT_EQ(deformkit_last_variant(), best);
    }
}

TEST(Dispatch, RowsAreDistinct) {
    std::set<std::string> names;
    for (const Variant &variant : all_variants()) {
        EXPECT_TRUE(names.insert(variant.name()).second) << variant.name() << " is listed twice";
    }
    EXPECT_FALSE(names.empty());
}

TEST(Dispatch, NoKernelForWhatIsEmptyOrZero) {
    for (const char *name : {"no_batch", "no_queries", "no_keys", "no_levels", "no_points"}) {
        ASSERT_EQ(try_msda_forward(), DEFORMKIT_OK);
        ASSERT_STRNE(deformkit_last_variant(), "");
        run(make_case(awkward_workload(name)));
        EXPECT_STREQ(deformkit_last_variant(), "") << name;
    }
}

TEST(Dispatch, UnknownTargetIsRefusedAndChangesNothing) {
    ASSERT_EQ(deformkit_set_target("sse41"), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_target("z80"), DEFORMKIT_INVALID_VALUE);
    const std::string message = deformkit_last_error();
    EXPECT_NE(message.find("z80"), std::string::npos) << message;
    for (const Variant &variant : all_variants()) {
        EXPECT_NE(message.find(variant.target), std::string::npos) << "does not offer " << variant.target << ": " << message;
    }
    EXPECT_EQ(deformkit_set_target(""), DEFORMKIT_INVALID_VALUE);
    EXPECT_EQ(deformkit_set_target("msda_forward_f32_sse41"), DEFORMKIT_INVALID_VALUE) << "a target, not a variant";
    EXPECT_EQ(try_msda_forward(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_STREQ(deformkit_last_variant(), "msda_forward_f32_sse41");
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
}

TEST(Dispatch, NumberOfThreads) {
    EXPECT_EQ(deformkit_set_num_threads(-1), DEFORMKIT_INVALID_VALUE);
    EXPECT_NE(std::string(deformkit_last_error()).find("-1"), std::string::npos) << deformkit_last_error();
    EXPECT_EQ(try_msda_forward(), DEFORMKIT_OK) << deformkit_last_error();
    for (int threads : {1, 3, 0}) {
        EXPECT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK) << deformkit_last_error();
        EXPECT_EQ(deformkit_get_num_threads(), threads);
        EXPECT_EQ(try_msda_forward(), DEFORMKIT_OK) << deformkit_last_error();
    }
}

TEST(Dispatch, VersionIsThreeNumbers) {
    const std::string version = deformkit_version();
    EXPECT_EQ(std::count(version.begin(), version.end(), '.'), 2) << version;
    EXPECT_EQ(version.find_first_not_of("0123456789."), std::string::npos) << version;
    EXPECT_EQ(version, DEFORMKIT_EXPECTED_VERSION);
}

}  // namespace
}  // namespace deformkit::testing
