// A child process has one thread of its parent's, and nothing of what others were about to do: it must still compute, on threads
// of its own, and end.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/child.h"
#include "tests/msda_case.h"
#include "tests/process.h"

namespace deformkit::testing {
namespace {

MsdaCase some_case() {
    return {{"", 2, 300, 8, 32, {{25, 42}, {13, 21}}, 4, Locations::kNear}, Type::kF32, Pass::kForward};
}

/// A child that ends as programs do, with all destructors. Its exit status, -1 for a signal: also that of a clock, should it hang.
template <typename Body>
int status_of_child(Body &&body) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        std::exit(body());
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Threads that do something until the end of the scope.
class Meanwhile {
public:
    template <typename Body>
    void also(Body &&body) {
        threads_.emplace_back([this, body] {
            while (!ended_) {
                body();
            }
        });
    }
    ~Meanwhile() {
        ended_ = true;
        for (std::thread &thread : threads_) {
            thread.join();
        }
    }

private:
    std::atomic<bool> ended_{false};
    std::vector<std::thread> threads_;
};

#ifndef __SANITIZE_ADDRESS__  // a child may wait for ever for a lock of its allocator
// First of all tests: the library has not been called in this process.
TEST(Fork, DuringTheFirstCallOfAnotherThread) {
    ASSERT_STREQ(deformkit_last_variant(), "");
    const MsdaCase c = some_case();
    const ProblemTensors tensors(c), others(c);
    for (int delay = 0; delay < 60; delay++) {
        const ChildResult fresh = run_in_fork([&] {
            std::atomic<bool> begun{false};
            std::thread caller([&] {
                begun = true;
                others.call();
            });
            while (!begun) {
            }
            for (volatile int i = 0; i < delay * 100; i = i + 1) {
            }
            const int status = status_of_child([&] { return tensors.call() == DEFORMKIT_OK ? 0 : 1; });
            caller.join();
            return status;
        });
        ASSERT_EQ(fresh.status, 0) << "delay " << delay << ": " << fresh.output;
    }
}
#endif

TEST(Fork, ChildComputesInParallel) {
    const MsdaCase c = some_case();
    ASSERT_EQ(deformkit_set_num_threads(4), DEFORMKIT_OK);
    const Outputs expected = run(c);
    ASSERT_TRUE(matches(c, expected));
    for (int repeat = 0; repeat < 5; repeat++) {
        const ProblemTensors tensors(c);
        EXPECT_EQ(status_of_child([&] {
                      const int before = threads_of_process();
                      const bool computed = tensors.call() == DEFORMKIT_OK && same_bits(tensors.outputs(), expected);
                      return !computed ? 1 : threads_of_process() != before + 3 ? 2 : 0;
                  }),
                  0);
        EXPECT_TRUE(same_bits(run(c), expected)) << "in the parent, afterwards";
    }
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

TEST(Fork, ChildEnds) {
    const MsdaCase c = some_case();
    for (const int threads : {1, 4, 8, 16}) {
        ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        run(c);
        for (int repeat = 0; repeat < 50; repeat++) {
            ASSERT_EQ(status_of_child([] { return 0; }), 0) << threads << " threads";
        }
    }
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

TEST(Fork, DuringCallsOfOtherThreads) {
    const MsdaCase c = some_case();
    const Outputs expected = run(c);
    const ProblemTensors tensors(c), first(c), second(c);
    Meanwhile meanwhile;
    meanwhile.also([&] { EXPECT_EQ(first.call(), DEFORMKIT_OK); });
    meanwhile.also([&] { EXPECT_EQ(second.call(), DEFORMKIT_OK); });
    meanwhile.also([] {
        for (const int threads : {1, 5, 2, 3}) {
            EXPECT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        }
    });
    for (int repeat = 0; repeat < 100; repeat++) {
        ASSERT_EQ(status_of_child([&] {
                      const bool set = deformkit_set_num_threads(3) == DEFORMKIT_OK;
                      return set && tensors.call() == DEFORMKIT_OK && same_bits(tensors.outputs(), expected) ? 0 : 1;
                  }),
                  0);
    }
}

TEST(Fork, ExitDuringCallsOfOtherThreads) {
    const MsdaCase c = some_case();
    const ProblemTensors first(c), second(c), third(c);
    for (int repeat = 0; repeat < 50; repeat++) {
        ASSERT_EQ(status_of_child([&] {
                      deformkit_set_num_threads(4);
                      for (const ProblemTensors *tensors : {&first, &second, &third}) {
                          std::thread([tensors] {
                              while (tensors->call() == DEFORMKIT_OK) {
                              }
                              abort();
                          }).detach();
                      }
                      usleep(500 * (repeat % 20));
                      return 0;
                  }),
                  0);
    }
}

}  // namespace
}  // namespace deformkit::testing
