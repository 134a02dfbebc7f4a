// Parallel loops, of kernels and of the copies around them, and what else the Halide runtime asks its host for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <limits>
#include <type_traits>

namespace deformkit {

/// Threads that a parallel loop may use now: in a workspace, as many as it was made for.
int num_threads();

/// Starts the worker threads, which otherwise the first call does.
void start_threads();

/// Runs task(i) for 0 <= i < count. If tasks throw, one of their exceptions comes out when all have ended.
template <typename Task>
void parallel_for(int64_t count, Task &&task);

/// The same, of a large number of small tasks: ranges of neighbours run on one thread, since they touch the same memory.
template <typename Task>
void parallel_for_neighbours(int64_t count, int64_t ranges_per_thread, Task &&task) {
    const int64_t ranges = std::min(count, num_threads() * ranges_per_thread);
    parallel_for(ranges, [&](int64_t range) {
        for (int64_t i = count * range / ranges; i < count * (range + 1) / ranges; i++) {
            task(i);
        }
    });
}

/// While one lives, it is told what the Halide runtime reports on this thread and on the workers of its loops.
class HalideErrors {
public:
    HalideErrors();
    ~HalideErrors();
    HalideErrors(const HalideErrors &) = delete;
    HalideErrors &operator=(const HalideErrors &) = delete;

    /// The first error.
    const char *text() const { return text_; }
    void note(const char *message) noexcept;

private:
    HalideErrors *outside_;
    std::atomic<bool> noted_{false};
    char text_[512];
};

namespace detail {
void parallel_for(int count, int (*task)(void *context, int i, uint8_t *closure), uint8_t *closure);
}

template <typename Task>
void parallel_for(int64_t count, Task &&task) {
    // Halide counts in 32 bits: where there are more tasks, several are one.
    const int64_t at_once = count / std::numeric_limits<int>::max() + 1;
    struct Loop {
        std::remove_reference_t<Task> &task;
        int64_t count, at_once;
        std::atomic<bool> failed{false};
        std::exception_ptr failure{};
    } loop{task, count, at_once};
    detail::parallel_for(
        static_cast<int>((count + at_once - 1) / at_once),
        [](void *, int i, uint8_t *closure) {
            Loop &loop = *reinterpret_cast<Loop *>(closure);
            try {
                const int64_t end = std::min(loop.count, (i + 1) * loop.at_once);
                for (int64_t j = i * loop.at_once; j < end; j++) {
                    loop.task(j);
                }
            } catch (...) {
                if (!loop.failed.exchange(true)) {
                    loop.failure = std::current_exception();
                }
            }
            return 0;
        },
        reinterpret_cast<uint8_t *>(&loop));
    if (loop.failure) {
        std::rethrow_exception(loop.failure);
    }
}

}  // namespace deformkit
