// The same bits for any number of threads, from call to call, and for callers in parallel.
#include <thread>

#include "tests/msda_case.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

/// Large enough for every thread to get work.
const std::vector<MsdaWorkload> &workloads() {
    static const std::vector<MsdaWorkload> workloads = {
        {"encoder", 2, 1500, 8, 32, {{25, 42}, {13, 21}, {7, 11}}, 4, Locations::kNear},
        {"decoder", 4, 300, 8, 32, {{50, 84}, {25, 42}, {13, 21}, {7, 11}}, 4, Locations::kBoxes},
        {"odd", 3, 211, 3, 19, {{17, 13}, {5, 9}}, 3, Locations::kWide},
        {"one_query", 1, 1, 8, 32, {{25, 42}, {13, 21}}, 4, Locations::kWide},
    };
    return workloads;
}

void check_threads(const MsdaWorkload &workload, Type type) {
    const MsdaCase c = make_case(workload, type);
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    const std::vector<double> expected = run(c);
    EXPECT_TRUE(matches_reference(c, expected));
    EXPECT_TRUE(is_substantial(expected));
    for (int threads : {1, 2, 7, 0}) {
        SCOPED_TRACE(::testing::Message() << threads << " threads");
        ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        for (int repeat = 0; repeat < 3; repeat++) {
            EXPECT_TRUE(same_bits(run(c), expected));
        }
    }
}

/// Eight threads call at once, each with its own inputs and its own errors.
void check_callers(const Variant &variant) {
    constexpr int kCallers = 8, kRepeats = 10;
    std::vector<MsdaCase> cases;
    std::vector<std::vector<double>> expected;
    for (int i = 0; i < kCallers; i++) {
        cases.push_back(take_queries(make_case(workloads()[i % 3], variant.type(), i), 100));
        expected.push_back(run(cases.back()));
        EXPECT_TRUE(matches_reference(cases.back(), expected.back()));
    }
    std::vector<std::string> complaints(kCallers);
    std::vector<std::thread> callers;
    callers.reserve(kCallers);
    for (int i = 0; i < kCallers; i++) {
        callers.emplace_back([&, i] {
            if (*deformkit_last_error() != '\0' || *deformkit_last_variant() != '\0') {
                complaints[i] = "a new thread knows of other threads' calls";
            }
            for (int repeat = 0; repeat < kRepeats && complaints[i].empty(); repeat++) {
                MsdaTensors tensors(cases[i]);
                if (tensors.call() != DEFORMKIT_OK) {
                    complaints[i] = deformkit_last_error();
                } else if (!same_bits(tensors.output.load_numbers(), expected[i])) {
                    complaints[i] = "another result than alone";
                } else if (!variant.is_served_by(deformkit_last_variant())) {
                    complaints[i] = deformkit_last_variant();
                }
                // An odd one refuses in between: its message must be its own.
                MsdaTensors wrong(cases[i]);
                wrong.value.dl()->ndim = 3;
                if (i % 2 == 1 && (wrong.call() != DEFORMKIT_WRONG_SHAPE || *deformkit_last_error() == '\0')) {
                    complaints[i] = "a wrong call was not refused";
                }
            }
            if (i % 2 == 0 && complaints[i].empty() && *deformkit_last_error() != '\0') {
                complaints[i] = std::string("another thread's error: ") + deformkit_last_error();
            }
        });
    }
    for (std::thread &caller : callers) {
        caller.join();
    }
    for (const std::string &complaint : complaints) {
        EXPECT_EQ(complaint, "");
    }
}

const bool registered = [] {
    for (const MsdaWorkload &workload : workloads()) {
        for_each_msda_forward_variant("Threads", workload.name, [&](const Variant &v) { check_threads(workload, v.type()); });
    }
    for_each_msda_forward_variant("Threads", "eight_callers", check_callers);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
