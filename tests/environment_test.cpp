// DEFORMKIT_TARGET, DEFORMKIT_NUM_THREADS and DEFORMKIT_VERBOSE, each in a process of its own.
#include "tests/probe.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

TEST(Environment, Quiet) {
    const ChildResult result = probe("DEFORMKIT_VERBOSE=0");
    EXPECT_TRUE(has_status(result, DEFORMKIT_OK)) << result.output;
    EXPECT_EQ(result.output.find("status="), 0u) << "something was logged: " << result.output;
    EXPECT_EQ(probe("DEFORMKIT_OTHER=1").output, result.output);
}

TEST(Environment, TargetForcesTheVariant) {
    for (const Variant &variant : all_variants()) {
        if (variant.op != "msda" || variant.pass != "forward" || variant.type() != Type::kF32 ||
            availability_of(variant.target) != Availability::kYes) {
            continue;
        }
        const ChildResult result = probe("DEFORMKIT_TARGET=" + variant.target);
        EXPECT_TRUE(has_status(result, DEFORMKIT_OK)) << result.output;
        EXPECT_TRUE(contains(result, "variant=msda_forward_f32_" + variant.target + "\n")) << result.output;
    }
}

TEST(Environment, VerboseTellsWhichVariantRanAndWhyNotOthers) {
    const ChildResult result = probe("DEFORMKIT_TARGET=sse41 DEFORMKIT_VERBOSE=1");
    EXPECT_TRUE(has_status(result, DEFORMKIT_OK)) << result.output;
    EXPECT_TRUE(contains(result, "msda_forward_f32_sse41")) << result.output;
    const std::string log = result.output.substr(0, result.output.find("status="));
    for (const Variant &variant : all_variants()) {
        if (variant.target == "sse41") {
            break;  // rows behind the one that ran were not looked at
        }
        const size_t at = log.find(variant.name());
        ASSERT_NE(at, std::string::npos) << variant.name() << " is not mentioned in: " << log;
        const std::string line = log.substr(at, log.find('\n', at) - at);
        EXPECT_NE(line.find("forced"), std::string::npos) << "no reason in: " << line;
    }
}

TEST(Environment, UnknownTargetIsRefused) {
    const ChildResult result = probe("DEFORMKIT_TARGET=nonsense");
    EXPECT_TRUE(has_status(result, DEFORMKIT_INVALID_VALUE) || has_status(result, DEFORMKIT_NO_VARIANT)) << result.output;
    for (const char *word : {"DEFORMKIT_TARGET", "nonsense"}) {
        EXPECT_TRUE(contains(result, word)) << result.output;
    }
    for (const Variant &variant : all_variants()) {
        EXPECT_TRUE(contains(result, variant.target)) << "does not offer " << variant.target << ": " << result.output;
    }
}

TEST(Environment, EmptyTargetIsNone) {
    EXPECT_EQ(probe("DEFORMKIT_TARGET=").output, probe("DEFORMKIT_VERBOSE=0").output);
}

TEST(Environment, NumberOfThreads) {
    for (const char *threads : {"1", "3", "0"}) {
        const ChildResult result = probe(std::string("DEFORMKIT_NUM_THREADS=") + threads);
        EXPECT_TRUE(has_status(result, DEFORMKIT_OK)) << result.output;
    }
    for (const char *threads : {"-1", "many", "2x", "257", "1e3", "99999999999999999999"}) {
        const ChildResult result = probe(std::string("DEFORMKIT_NUM_THREADS=") + threads);
        EXPECT_TRUE(has_status(result, DEFORMKIT_INVALID_VALUE)) << result.output;
        EXPECT_TRUE(contains(result, "DEFORMKIT_NUM_THREADS") && contains(result, threads)) << result.output;
    }
}

}  // namespace
}  // namespace deformkit::testing
