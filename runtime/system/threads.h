// The library's own worker threads. Halide's are never started: a forked child, which has none of them, would wait for them when
// it exits, and they do not survive a start without memory.
//
// A loop's tasks are taken one by one, by the thread that runs the loop and by workers that have nothing else to do. That thread
// does no other loop's tasks while it waits. Workers start when a loop first has use for them, sleep when there is nothing to do,
// and end with the library. Where they cannot be started, loops run on fewer threads.
#pragma once

#include <atomic>
#include <cstdint>

namespace deformkit {

constexpr int kMostThreads = 256;

class Loop {
public:
    /// Tasks from begin to end, on at most so many threads.
    Loop(int64_t begin, int64_t end, int threads);
    Loop(const Loop &) = delete;
    Loop &operator=(const Loop &) = delete;

    /// Returns when all tasks have ended.
    void run();

protected:
    ~Loop() = default;

    /// Takes tasks until none is left. `seat` numbers the threads that do, this call's own first.
    virtual void work(int seat) = 0;
    bool take(int seat, int64_t &task);
    /// Nobody takes another task.
    void cancel() { next_.store(end_, std::memory_order_relaxed); }

private:
    friend struct Workers;
    bool has_room() const;
    void wait_for_workers();

    std::atomic<int64_t> next_;
    const int64_t end_;
    const int threads_;
    int seats_ = 1;                    // taken so far
    std::atomic<uint32_t> inside_{0};  // workers, and kWaiting
    Loop *previous_ = nullptr, *following_ = nullptr;
};

/// Starts workers for loops on so many threads, which otherwise the first loop does.
void start_workers(int threads);

}  // namespace deformkit
