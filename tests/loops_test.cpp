// Parallel loops: every task once, on no more threads than asked for, loops within tasks, and whose errors reach whom.
#include <HalideRuntime.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "deformkit/deformkit.h"
#include "runtime/system/parallel.h"

namespace deformkit::testing {
namespace {

class Loops : public ::testing::Test {
protected:
    void TearDown() override { EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK); }
};

TEST_F(Loops, EveryTaskOnce) {
    for (const int threads : {1, 2, 5, 64, 256}) {
        ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        for (const int count : {0, 1, 2, 3, 7, 1000}) {
            std::vector<std::atomic<int>> ran(count);
            parallel_for(count, [&](int i) { ran[i]++; });
            for (int i = 0; i < count; i++) {
                ASSERT_EQ(ran[i], 1) << threads << " threads, task " << i << " of " << count;
            }
        }
    }
}

TEST_F(Loops, NoMoreThreadsThanAskedFor) {
    ASSERT_EQ(deformkit_set_num_threads(16), DEFORMKIT_OK);
    start_threads();
    ASSERT_EQ(deformkit_set_num_threads(3), DEFORMKIT_OK);
    std::atomic<int> inside{0}, most{0}, ran{0};
    parallel_for(8, [&](int) {
        parallel_for(50, [&](int) {
            const int now = ++inside;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            inside--;
            ran++;
        });
    });
    EXPECT_EQ(ran, 8 * 50);
    EXPECT_LE(most, 3);
    EXPECT_GE(most, 2);
}

// The thread that waits does nothing else meanwhile.
TEST_F(Loops, CallersRunTheirOwnTasksOnly) {
    ASSERT_EQ(deformkit_set_num_threads(4), DEFORMKIT_OK);
    std::vector<std::thread> callers;
    std::set<std::thread::id> ids;
    std::atomic<int> strangers{0};
    std::atomic<bool> begun{false};
    for (int caller = 0; caller < 8; caller++) {
        callers.emplace_back([&] {
            while (!begun) {
            }
            const auto own = std::this_thread::get_id();
            for (int repeat = 0; repeat < 200; repeat++) {
                parallel_for(20, [&](int) {
                    const auto here = std::this_thread::get_id();
                    strangers += here != own && ids.count(here) != 0;
                });
            }
        });
        ids.insert(callers.back().get_id());
    }
    begun = true;
    for (std::thread &caller : callers) {
        caller.join();
    }
    EXPECT_EQ(strangers, 0);
}

TEST_F(Loops, AnExceptionComesOutWhenAllHaveEnded) {
    ASSERT_EQ(deformkit_set_num_threads(4), DEFORMKIT_OK);
    std::atomic<int> ran{0};
    EXPECT_THROW(parallel_for(100,
                              [&](int i) {
                                  ran++;
                                  if (i % 10 == 3) {
                                      throw std::runtime_error("task");
                                  }
                              }),
                 std::runtime_error);
    EXPECT_EQ(ran, 100);
}

// What Halide's runtime reports in a worker belongs to the call whose loop that worker is in.
TEST_F(Loops, ErrorsReachTheirOwnCall) {
    ASSERT_EQ(deformkit_set_num_threads(4), DEFORMKIT_OK);
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 8; caller++) {
        callers.emplace_back([&wrong, caller] {
            const std::string own = "caller " + std::to_string(caller);
            for (int repeat = 0; repeat < 300; repeat++) {
                const HalideErrors errors;
                parallel_for(16, [&](int i) {
                    if (i > 3) {
                        halide_error(nullptr, own.c_str());
                    }
                });
                wrong += errors.text() != own;
            }
            const HalideErrors none;
            parallel_for(16, [](int) {});
            wrong += *none.text() != '\0';
        });
    }
    for (std::thread &caller : callers) {
        caller.join();
    }
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace deformkit::testing
