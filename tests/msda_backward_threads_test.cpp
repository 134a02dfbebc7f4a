// MSDA backward: the same bits for any number of threads, from call to call, for callers in parallel, and whichever gradients
// are asked for.
#include <thread>

#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

/// Large enough for every thread to get work; one of them adds everything to a few cells.
const std::vector<MsdaWorkload> &workloads() {
    static const std::vector<MsdaWorkload> workloads = {
        {"encoder", 1, 1500, 8, 32, {{25, 42}, {13, 21}, {7, 11}}, 4, Locations::kNear},
        {"decoder", 2, 300, 8, 32, {{50, 84}, {25, 42}, {13, 21}, {7, 11}}, 4, Locations::kBoxes},
        {"odd", 3, 211, 3, 19, {{17, 13}, {5, 9}}, 3, Locations::kWide},
        {"few_cells", 1, 3000, 2, 16, {{2, 3}, {1, 1}}, 4, Locations::kWide},
        {"one_query", 1, 1, 8, 32, {{25, 42}, {13, 21}}, 4, Locations::kWide},
    };
    return workloads;
}

void check_threads(const MsdaWorkload &workload, Type type) {
    const MsdaBackwardCase c = make_backward_case(workload, type);
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    const MsdaGradients expected = run(c);
    EXPECT_TRUE(matches_reference(c, expected));
    EXPECT_TRUE(is_substantial(expected, workload.queries == 1 ? 0.001 : 0.3));
    for (int threads : {1, 2, 7, 64, 0}) {
        SCOPED_TRACE(::testing::Message() << threads << " threads");
        ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        for (int repeat = 0; repeat < 2; repeat++) {
            EXPECT_TRUE(same_bits(run(c), expected));
        }
    }
}

void check_subsets(const MsdaWorkload &workload, const Variant &variant, Type type) {
    const MsdaBackwardCase c = make_backward_case(workload, type);
    const MsdaGradients all = run(c);
    for (const Wanted &wanted : all_subsets()) {
        SCOPED_TRACE(::testing::Message() << "value " << wanted.value << ", locations " << wanted.locations << ", weights "
                                          << wanted.weights);
        const MsdaGradients some = run(c, {}, wanted);
        const std::string ran = deformkit_last_variant();
        if (wanted.value) {
            EXPECT_EQ(ran, variant.name());
        } else if (wanted.locations || wanted.weights) {
            EXPECT_EQ(ran, "msda_backward_samples_" + variant.type_name + "_" + variant.target);
        } else {
            EXPECT_EQ(ran, "") << "nothing was wanted";
        }
        const MsdaGradients expected = {wanted.value ? all.value : std::vector<double>(),
                                        wanted.locations ? all.locations : std::vector<double>(),
                                        wanted.weights ? all.weights : std::vector<double>()};
        EXPECT_TRUE(same_bits(some, expected));
    }
}

/// Six threads call at once, each with its own inputs and its own errors.
void check_callers(const Variant &variant, Type type) {
    constexpr int kCallers = 6, kRepeats = 10;
    std::vector<MsdaBackwardCase> cases;
    std::vector<MsdaGradients> expected;
    for (int i = 0; i < kCallers; i++) {
        cases.push_back(take_queries(make_backward_case(workloads()[i % 3], type, i), 100));
        expected.push_back(run(cases.back()));
        EXPECT_TRUE(matches_reference(cases.back(), expected.back()));
    }
    std::vector<std::string> complaints(kCallers);
    std::vector<std::thread> callers;
    callers.reserve(kCallers);
    for (int i = 0; i < kCallers; i++) {
        callers.emplace_back([&, i] {
            for (int repeat = 0; repeat < kRepeats && complaints[i].empty(); repeat++) {
                MsdaBackwardTensors tensors(cases[i]);
                if (tensors.call() != DEFORMKIT_OK) {
                    complaints[i] = deformkit_last_error();
                } else if (!same_bits(tensors.gradients(), expected[i])) {
                    complaints[i] = "another result than alone";
                } else if (deformkit_last_variant() != variant.name()) {
                    complaints[i] = deformkit_last_variant();
                }
                // An odd one refuses in between: its message must be its own.
                MsdaBackwardTensors wrong(cases[i]);
                wrong.grad_output.dl()->ndim = 2;
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
        for_each_msda_backward_variant("Threads", workload.name,
                                       [&](const Variant &, Type type) { check_threads(workload, type); });
        for_each_msda_backward_variant("Subsets", workload.name,
                                       [&](const Variant &v, Type type) { check_subsets(workload, v, type); });
    }
    static const std::vector<MsdaWorkload> small = {awkward_workload("channels_7"), crowded(awkward_workload("channels_3")),
                                                    awkward_workload("samples_1x2"), awkward_workload("one_of_everything")};
    for (const MsdaWorkload &workload : small) {
        for_each_msda_backward_variant("Subsets", workload.name,
                                       [&](const Variant &v, Type type) { check_subsets(workload, v, type); });
    }
    for_each_msda_backward_variant("Threads", "six_callers", check_callers);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
