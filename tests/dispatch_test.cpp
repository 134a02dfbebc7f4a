// Which variant runs: the first that this machine supports, unless one is forced.
#include <algorithm>

#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

deformkit_status try_msda_forward(Type type = Type::kF32) {
    return try_smallest<MsdaCase>(Pass::kForward, type);
}

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

TEST(Dispatch, NoKernelForWhatIsEmptyOrZero) {
    for (const char *name : {"no_batch", "no_queries", "no_keys", "no_levels", "no_points"}) {
        ASSERT_EQ(try_msda_forward(), DEFORMKIT_OK);
        ASSERT_STRNE(deformkit_last_variant(), "");
        run(MsdaCase(awkward_workload(name), Type::kF32, Pass::kForward));
        EXPECT_STREQ(deformkit_last_variant(), "") << name;
    }
}

/// Every row of one kernel of a backward has its counterpart: tests that force a row of backward_value test both.
TEST(Dispatch, KernelsOfBackwardComeInPairs) {
    int pairs = 0;
    for (const Variant &variant : all_variants()) {
        const bool value = variant.pass == "backward_value";
        if (value || variant.pass == "backward_samples") {
            const std::string other = value ? "backward_samples" : "backward_value";
            EXPECT_TRUE(std::any_of(all_variants().begin(), all_variants().end(), [&](const Variant &v) {
                return v.op == variant.op && v.pass == other && v.type_name == variant.type_name && v.target == variant.target;
            })) << variant.name();
            pairs += value;
        }
    }
    EXPECT_GT(pairs, 0);
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
    for (const int none : {-1, 257}) {
        EXPECT_EQ(deformkit_set_num_threads(none), DEFORMKIT_INVALID_VALUE);
        const std::string expected = "num_threads: expected a number from 0 to 256, got " + std::to_string(none);
        EXPECT_EQ(deformkit_last_error(), expected);
    }
    EXPECT_EQ(try_msda_forward(), DEFORMKIT_OK) << deformkit_last_error();
    for (int threads : {1, 3, 256, 0}) {
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
