// Many threads that call at once while others change what calls are made with, and a system that has no more threads to give.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/da_case.h"
#include "tests/fuzz.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"
#include "tests/process.h"

#if defined(__SANITIZE_THREAD__)
#define DEFORMKIT_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DEFORMKIT_THREAD_SANITIZER
#endif
#endif

namespace {

constexpr int kAnyNumber = std::numeric_limits<int>::max();
std::atomic<int> threads_left{kAnyNumber};

}  // namespace

#ifndef DEFORMKIT_THREAD_SANITIZER
/// The library's too: the system has so many threads left.
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    using Create = int(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static auto *create = reinterpret_cast<Create *>(dlsym(RTLD_NEXT, "pthread_create"));
    if (threads_left <= 0) {
        return EAGAIN;
    }
    threads_left--;
    return create(thread, attributes, run, argument);
}
#endif

namespace deformkit::testing {
namespace {

std::vector<std::string> cpu_targets() {
    std::vector<std::string> targets;
    for (const Variant &variant : all_variants()) {
        if (availability_of(variant.target) == Availability::kYes &&
            std::find(targets.begin(), targets.end(), variant.target) == targets.end()) {
            targets.push_back(variant.target);
        }
    }
    return targets;
}

MsdaCase some_case(Pass pass) {
    return {{"", 2, 300, 8, 32, {{25, 42}, {13, 21}}, 4, Locations::kNear}, Type::kF32, pass};
}

// First of all tests: no worker has been started yet.
TEST(Threads, FewerWhereTheSystemHasNoMore) {
#ifdef DEFORMKIT_THREAD_SANITIZER
    GTEST_SKIP() << "ThreadSanitizer starts threads itself";
#endif
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        const MsdaCase c = some_case(pass);
        threads_left = kAnyNumber;  // references compute on threads too
        ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
        const Outputs alone = run(c);
        ASSERT_TRUE(matches(c, alone));
        ASSERT_EQ(deformkit_set_num_threads(8), DEFORMKIT_OK);
        const int before = threads_of_process();
        threads_left = 0;
        if (pass == Pass::kForward) {
            for (const int more : {0, 2, 1000}) {
                threads_left = more;
                std::this_thread::sleep_for(std::chrono::milliseconds(150));  // until it is tried again
                EXPECT_TRUE(same_bits(run(c), alone));
                EXPECT_EQ(threads_of_process(), before + std::min(more, 7));
                threads_left = 0;
                EXPECT_TRUE(same_bits(run(c), alone));
            }
        } else {
            EXPECT_EQ(before, 8);
            EXPECT_TRUE(same_bits(run(c), alone));
        }
    }
    threads_left = kAnyNumber;
    ASSERT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

/// On threads of its own, the last part first.
struct PartsOnThreads {
    int calls = 0, most_parts = 0;

    static void run(void *context, int count, void (*part)(void *parts, int i), void *parts) {
        auto &self = *static_cast<PartsOnThreads *>(context);
        self.calls++;
        self.most_parts = std::max(self.most_parts, count);
        std::vector<std::thread> threads;
        for (int i = count - 1; i >= 0; i--) {
            threads.emplace_back(part, parts, i);
        }
        for (std::thread &thread : threads) {
            thread.join();
        }
    }

    static void run_in_order(void *context, int count, void (*part)(void *parts, int i), void *parts) {
        static_cast<PartsOnThreads *>(context)->calls++;
        for (int i = 0; i < count; i++) {
            part(parts, i);
        }
    }
};

TEST(Threads, OfThePool) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        const MsdaCase c = some_case(pass);
        const Outputs expected = run(c);
        ASSERT_TRUE(matches(c, expected));
        for (const auto parallel_for : {PartsOnThreads::run, PartsOnThreads::run_in_order}) {
            PartsOnThreads parts;
            const deformkit_thread_pool pool{3, parallel_for, &parts};
            EXPECT_EQ(deformkit_set_thread_pool(&pool), nullptr);
            EXPECT_TRUE(same_bits(run(c), expected));
            EXPECT_GT(parts.calls, 0);
            EXPECT_LE(parts.most_parts, 3);
            // Another thread's calls are not concerned.
            const int calls = parts.calls;
            std::thread([&] { EXPECT_TRUE(same_bits(run(c), expected)); }).join();
            EXPECT_EQ(parts.calls, calls);
            EXPECT_EQ(deformkit_set_thread_pool(nullptr), &pool);
        }
        // The library's own threads, but none beside the caller's.
        const deformkit_thread_pool alone{1, nullptr, nullptr}, wrong{257, nullptr, nullptr};
        deformkit_set_thread_pool(&alone);
        EXPECT_TRUE(same_bits(run(c), expected));
        deformkit_set_thread_pool(&wrong);
        EXPECT_EQ(ProblemTensors(c).call(), DEFORMKIT_INVALID_VALUE);
        EXPECT_STREQ(deformkit_last_error(), "num_threads: expected a number from 0 to 256, got 257");
        deformkit_set_thread_pool(nullptr);
    }
}

#if !defined(DEFORMKIT_THREAD_SANITIZER) && !defined(__SANITIZE_ADDRESS__)
/// How much of a stack of 512 KiB the body takes; a stack that is too small ends the process.
template <typename Body>
size_t stack_of(Body &&body) {
    constexpr size_t kStack = size_t{512} << 10, kPage = 4096;
    constexpr unsigned char kPaint = 0xa5;
    void *memory = mmap(nullptr, kStack + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    mprotect(memory, kPage, PROT_NONE);
    unsigned char *stack = static_cast<unsigned char *>(memory) + kPage;
    std::fill_n(stack, kStack, kPaint);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, kStack);
    pthread_t thread;
    EXPECT_EQ(pthread_create(
                  &thread, &attributes,
                  [](void *run) -> void * {
                      (*static_cast<std::remove_reference_t<Body> *>(run))();
                      return nullptr;
                  },
                  &body),
              0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    const auto unused = std::find_if(stack, stack + kStack, [](unsigned char byte) { return byte != kPaint; }) - stack;
    munmap(memory, kStack + kPage);
    return kStack - static_cast<size_t>(unused);
}

// With one thread all work is the caller's. What kernels take on the stack is bounded, whatever the shape: the most, 413 KiB, was
// seen in deformable aggregation.
TEST(Threads, SmallStacks) {
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    std::vector<std::unique_ptr<Problem>> problems;
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const Type type : {Type::kF32, Type::kF64}) {
            for (const int64_t points : {4, 64, 200, 1024}) {
                const MsdaWorkload workload{"", 1, 40, 1, 16, {{12, 16}}, points, Locations::kWide};
                problems.push_back(std::make_unique<MsdaCase>(workload, type, pass));
                problems.push_back(std::make_unique<GkaCase>(workload, type, pass));
                const DaWorkload da_workload{"", 1, 40, points, 2, {{12, 16}}, 4, 16, 0.5};
                problems.push_back(std::make_unique<DaCase>(da_workload, type, pass));
            }
        }
    }
    size_t most = 0;
    for (const std::string &target : cpu_targets()) {
        ASSERT_EQ(deformkit_set_target(target.c_str()), DEFORMKIT_OK);
        for (const auto &problem : problems) {
            const ProblemTensors tensors(*problem);
            most = std::max(most, stack_of([&] { EXPECT_EQ(tensors.call(), DEFORMKIT_OK); }));
        }
    }
    std::printf("%zu KiB of stack\n", most >> 10);
    EXPECT_LT(most, size_t{480} << 10);
    ASSERT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
    ASSERT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
}
#endif

std::unique_ptr<Problem> random_problem(Dice &dice, uint32_t seed) {
    const Pass pass = dice.any_of<Pass>({Pass::kForward, Pass::kBackward});
    const Type type = dice.any_of<Type>({Type::kF32, Type::kF16, Type::kBf16, Type::kF64});
    switch (dice.between(0, 2)) {
        case 0:
            return std::make_unique<MsdaCase>(random_workload(dice), type, pass, seed);
        case 1:
            return std::make_unique<GkaCase>(random_workload(dice), type, pass, seed);
        default:
            return std::make_unique<DaCase>(DaWorkload{"",
                                                       dice.between(1, 3),
                                                       dice.between(1, 30),
                                                       dice.any_of<int64_t>({1, 13, 200}),
                                                       dice.between(1, 3),
                                                       {{9, 14}, {5, 7}},
                                                       dice.any_of<int64_t>({1, 4, 8}),
                                                       dice.any_of<int64_t>({16, 32, 7}),
                                                       0.5},
                                            type, pass, seed);
    }
}

// DEFORMKIT_STRESS_SECONDS: how long.
TEST(Threads, ManyCallers) {
    constexpr int kCallers = 64;
    const char *seconds = std::getenv("DEFORMKIT_STRESS_SECONDS");
    const std::chrono::duration<double> length(seconds != nullptr ? std::atof(seconds) : 2);
    const std::vector<std::string> targets = cpu_targets();

    struct Caller {
        std::unique_ptr<Problem> problem;
        std::unique_ptr<ProblemTensors> tensors;
        std::vector<Outputs> expected;  // on each target, by one thread
        std::string complaint;
        std::atomic<int64_t> calls{0};
    };
    std::vector<Caller> callers(kCallers);
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    for (uint32_t i = 0; i < kCallers; i++) {
        Dice dice(i);
        callers[i].problem = random_problem(dice, i);
        callers[i].tensors = std::make_unique<ProblemTensors>(*callers[i].problem);
        for (const std::string &target : targets) {
            ASSERT_EQ(deformkit_set_target(target.c_str()), DEFORMKIT_OK);
            callers[i].expected.push_back(run(*callers[i].problem));
        }
        EXPECT_TRUE(matches(*callers[i].problem, callers[i].expected.back()));
    }

    std::atomic<bool> ended{false};
    std::vector<std::thread> threads;
    for (Caller &caller : callers) {
        threads.emplace_back([&] {
            const size_t number = &caller - callers.data();
            while (!ended && caller.complaint.empty()) {
                if (caller.tensors->call() != DEFORMKIT_OK) {
                    caller.complaint = deformkit_last_error();
                } else if (const Outputs outputs = caller.tensors->outputs();
                           std::none_of(caller.expected.begin(), caller.expected.end(),
                                        [&](const Outputs &one) { return same_bits(outputs, one); })) {
                    caller.complaint = "another result than that of any target";
                }
                // What is wrong with each one's wrong call is another number.
                DLTensor wrong = *caller.tensors->arguments[0];
                wrong.ndim = static_cast<int32_t>(100 + number);
                std::vector<DLTensor *> arguments = caller.tensors->arguments;
                arguments[0] = &wrong;
                if (caller.problem->call(arguments) == DEFORMKIT_OK ||
                    std::string(deformkit_last_error()).find(std::to_string(wrong.ndim)) == std::string::npos) {
                    caller.complaint = std::string("another's error: ") + deformkit_last_error();
                }
                caller.calls++;
            }
        });
    }
    const auto begin = std::chrono::steady_clock::now();
    long settled = 0;
    for (uint32_t turn = 0; std::chrono::steady_clock::now() - begin < length; turn++) {
        EXPECT_EQ(deformkit_set_num_threads(static_cast<int>(turn % 7)), DEFORMKIT_OK);
        const size_t target = turn % (targets.size() + 1);
        EXPECT_EQ(deformkit_set_target(target < targets.size() ? targets[target].c_str() : nullptr), DEFORMKIT_OK);
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        if (settled == 0 && std::chrono::steady_clock::now() - begin > length / 2) {
            settled = resident_kib();
        }
    }
    const long grown = resident_kib() - settled;
    ended = true;
    int64_t calls = 0;
    for (size_t i = 0; i < kCallers; i++) {
        threads[i].join();
        EXPECT_EQ(callers[i].complaint, "") << "caller " << i;
        EXPECT_GT(callers[i].calls, 0) << "caller " << i;
        calls += callers[i].calls;
    }
    RecordProperty("calls", static_cast<int>(calls));
    std::printf("%ld calls, %ld KiB more at the end than half way\n", static_cast<long>(calls), grown);
#ifndef __SANITIZE_ADDRESS__     // which keeps what is freed
    EXPECT_LT(grown, 64 << 10);  // each thread's block still grows to what its largest call takes
#endif
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
}

}  // namespace
}  // namespace deformkit::testing
