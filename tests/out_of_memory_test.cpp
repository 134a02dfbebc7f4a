// A call that gets no memory is refused, writes nothing, loses nothing, and the next call works: each allocation is refused in turn.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>

#include "tests/child.h"
#include "tests/da_case.h"
#include "tests/gka_case.h"
#include "tests/interposed.h"
#include "tests/msda_case.h"
#include "tests/process.h"

namespace deformkit::testing {
namespace {

/// Calls of every operator, pass and way through the library, small. What memory their tasks take is known from an earlier call
/// of the same number of channels only.
struct Way {
    const char *name;
    std::unique_ptr<Problem> (*make)(Type type, Pass pass, int64_t channels);
    Layouts layouts;
};

MsdaWorkload small_workload(int64_t queries, int64_t channels) {
    return {"", 2, queries, 2, channels, {{6, 5}, {3, 2}}, 3, Locations::kWide};
}

Layouts packed() {
    Layouts layouts;
    layouts.index_bits = 32;
    for (const char *name : {"value", "feature_maps", "grad_value", "grad_feature_maps"}) {
        layouts.of[name].step = {1, 1, 1, 2};
    }
    for (const char *name : {"feature_maps", "grad_feature_maps"}) {
        layouts.of[name].step = {1, 1, 2};
    }
    return layouts;
}

const std::vector<Way> &ways() {
    static const std::vector<Way> all = {
        {"msda",
         [](Type type, Pass pass, int64_t channels) -> std::unique_ptr<Problem> {
             return std::make_unique<MsdaCase>(small_workload(3, channels), type, pass);
         },
         {}},
        {"msda, many queries",
         [](Type type, Pass pass, int64_t channels) -> std::unique_ptr<Problem> {
             return std::make_unique<MsdaCase>(small_workload(300, channels), type, pass);
         },
         packed()},
        {"da",
         [](Type type, Pass pass, int64_t channels) -> std::unique_ptr<Problem> {
             return std::make_unique<DaCase>(DaWorkload{"", 2, 20, 3, 2, {{4, 5}, {2, 3}}, 2, channels, 0.7}, type, pass);
         },
         packed()},
        {"da, few anchors",
         [](Type type, Pass pass, int64_t channels) -> std::unique_ptr<Problem> {
             return std::make_unique<DaCase>(DaWorkload{"", 1, 1, 700, 2, {{4, 5}, {0, 3}}, 2, channels, 0.7}, type, pass);
         },
         {}},
        {"gka",
         [](Type type, Pass pass, int64_t channels) -> std::unique_ptr<Problem> {
             return std::make_unique<GkaCase>(small_workload(3, channels), type, pass);
         },
         packed()},
        {"gka, many queries of int8",
         [](Type type, Pass pass, int64_t channels) -> std::unique_ptr<Problem> {
             auto problem = std::make_unique<GkaCase>(small_workload(300, channels), type, pass);
             problem->set_location_dtype({kDLInt, 8, 1});
             return problem;
         },
         {}},
    };
    return all;
}

enum Attempt { kWrong, kRefused, kSucceeded, kNothingToRefuse };

/// Calls while allocations from number `first` on are refused, and once more without. Says on stderr what is wrong.
Attempt attempt(const Problem &problem, const Layouts &layouts, int64_t first, bool and_later, bool first_call) {
    const ProblemTensors tensors(problem, layouts), after(problem, layouts);
    deformkit_status status = DEFORMKIT_OK;
    Allocations taken;
    deformkit_release_memory();
    {
        const CountAllocations count(first, and_later);
        status = tensors.call();
        deformkit_release_memory();
        taken = count.so_far();
    }
    // The first call of a process leaves tables.
    if (!first_call && (taken.live != 0 || taken.live_bytes != 0)) {
        fprintf(stderr, "lost: %lld blocks, %lld bytes\n", static_cast<long long>(taken.live),
                static_cast<long long>(taken.live_bytes));
        return kWrong;
    }
    if (status != DEFORMKIT_OK && (status != DEFORMKIT_OUT_OF_MEMORY || !tensors.outputs_untouched())) {
        fprintf(stderr, "status %d, outputs %s: %s\n", status, tensors.outputs_untouched() ? "untouched" : "written",
                deformkit_last_error());
        return kWrong;
    }
    if (after.call() != DEFORMKIT_OK || !matches(problem, outputs_of(after)) ||
        (status == DEFORMKIT_OK && !same_bits(outputs_of(tensors), outputs_of(after)))) {
        fprintf(stderr, "wrong afterwards: %s\n", deformkit_last_error());
        return kWrong;
    }
    return status != DEFORMKIT_OK ? kRefused : taken.calls > first ? kSucceeded : kNothingToRefuse;
}

/// Every way, with every allocation refused in turn, alone and with all later ones. `refuse` makes an attempt at a number.
template <typename Refuse>
void check_all_ways(const Refuse &refuse) {
    for (const Way &way : ways()) {
        for (const Type type : {Type::kF32, Type::kF16}) {
            for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
                for (const bool and_later : {false, true}) {
                    SCOPED_TRACE(::testing::Message() << way.name << ", " << name_of(type) << ", pass "
                                                      << static_cast<int>(pass) << ", and later " << and_later);
                    int refused = 0;
                    Attempt result = kRefused;
                    for (int64_t first = 0; result != kNothingToRefuse; first++) {
                        result = refuse(way, type, pass, first, and_later);
                        ASSERT_NE(result, kWrong) << "allocation " << first;
                        refused += result == kRefused;
                    }
                    EXPECT_GT(refused, 0);
                }
            }
        }
    }
}

// First of all, while this process has not called the library: each attempt is the first call of a child's.
TEST(OutOfMemory, FirstCalls) {
    if (!allocations_are_counted()) {
        GTEST_SKIP() << "the sanitizer allocates";
    }
    check_all_ways([](const Way &way, Type type, Pass pass, int64_t first, bool and_later) {
        const auto problem = way.make(type, pass, 16);
        const ChildResult child = run_in_fork([&] {
            deformkit_set_num_threads(2);
            return attempt(*problem, way.layouts, first, and_later, true);
        });
        EXPECT_NE(child.status, kWrong) << child.output;
        return child.status < 0 ? kWrong : static_cast<Attempt>(child.status);
    });
}

TEST(OutOfMemory, CallsOfNewShapes) {
    if (!allocations_are_counted()) {
        GTEST_SKIP() << "the sanitizer allocates";
    }
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    EXPECT_EQ(try_smallest<MsdaCase>(Pass::kForward, Type::kF32), DEFORMKIT_OK);
    int64_t channels = 0;
    check_all_ways([&](const Way &way, Type type, Pass pass, int64_t first, bool and_later) {
        channels = channels % 200 + 1;
        return attempt(*way.make(type, pass, channels), way.layouts, first, and_later, false);
    });
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

/// This process may grow by so much and no more.
void limit_growth(rlim_t bytes) {
    const struct rlimit both = {static_cast<rlim_t>(bytes_of_process().mapped) + bytes, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &both);
}

/// 96 callers at the same time, of 8 MB each, keep what one knob allows, and give it back, whichever thread asks.
TEST(OutOfMemory, WhatIsKeptIsBoundedAndGivenBack) {
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    const MsdaCase c({"", 1, 10, 8, 32, {{90, 90}}, 4, Locations::kWide}, Type::kF32, Pass::kForward);
    Layouts layouts;
    layouts.of["value"].step = {1, 1, 1, 2};
    deformkit_release_memory();
    const int64_t before = bytes_of_process().resident;
    std::vector<std::unique_ptr<ProblemTensors>> tensors;
    for (int i = 0; i < 96; i++) {
        tensors.push_back(std::make_unique<ProblemTensors>(c, layouts));
    }
    const int64_t inputs = bytes_of_process().resident;
    std::vector<std::thread> callers;
    std::atomic<int> succeeded{0}, ended{0};
    std::atomic<bool> go_on{true};
    for (const auto &one : tensors) {
        callers.emplace_back([&] {
            for (int i = 0; i < 3; i++) {
                succeeded += one->call() == DEFORMKIT_OK;
            }
            ended++;
            while (go_on) {
                usleep(1000);
            }
        });
    }
    while (ended < 96) {
        usleep(1000);
    }
    const int64_t kept = bytes_of_process().resident - inputs;
    deformkit_release_memory();
    const int64_t left = bytes_of_process().resident - inputs;
    go_on = false;
    for (std::thread &caller : callers) {
        caller.join();
    }
    EXPECT_EQ(succeeded, 3 * 96);
    printf("%lld MiB kept, %lld MiB left\n", static_cast<long long>(kept >> 20), static_cast<long long>(left >> 20));
    EXPECT_LE(kept, (256 + 64) << 20);
    EXPECT_LE(left, 64 << 20);
    EXPECT_GT(inputs, before);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

TEST(OutOfMemory, PackingWithoutMemoryIsRefused) {
    if (!allocations_are_counted()) {
        GTEST_SKIP() << "AddressSanitizer reserves more address space than any limit";
    }
    // 64 MiB whose channels are not neighbours: kernels want them packed.
    const MsdaCase c({"", 1, 10, 8, 32, {{256, 256}}, 4, Locations::kWide}, Type::kF32, Pass::kForward);
    Layouts layouts;
    layouts.of["value"].order = {0, 3, 2, 1};
    layouts.of["value"].step = {1, 1, 1, 2};
    const ProblemTensors tensors(c, layouts);
    const ChildResult child = run_in_fork([&] {
        deformkit_set_num_threads(1);
        const MsdaCase small_case(awkward_workload("samples_4x4"), Type::kF32, Pass::kForward);
        const ProblemTensors small(small_case);
        if (small.call() != DEFORMKIT_OK) {
            return 1;
        }
        limit_growth(16 << 20);
        const deformkit_status refused = tensors.call();
        fprintf(stderr, "status %d: %s\n", refused, deformkit_last_error());
        if (refused != DEFORMKIT_OUT_OF_MEMORY) {
            return 2;
        }
        if (!tensors.outputs_untouched()) {
            return 3;
        }
        const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &none);
        if (tensors.call() != DEFORMKIT_OK) {
            return 4;
        }
        return matches(c, tensors.outputs()) ? 0 : 5;
    });
    EXPECT_EQ(child.status, 0) << child.output;
    EXPECT_NE(child.output.find("memory"), std::string::npos) << child.output;
}

}  // namespace
}  // namespace deformkit::testing
