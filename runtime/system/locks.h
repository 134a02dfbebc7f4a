// Every mutex of the library, and what else a fork() may meet half done.
//
// A child process has one thread. What another thread of the parent held or was about to initialise at the fork stays as it was
// for ever: so fork() takes all mutexes first, and nothing else in the library is initialised under a lock. In particular no
// static within a function has an initialiser that runs. runtime/gpu/ keeps its own locks: drivers do not survive a fork either, and
// calls on the CPU never take them.
#pragma once

#include <atomic>
#include <mutex>

namespace deformkit {

/// In the order in which they are taken: whoever holds one may take those below.
enum class Lock { kKnobs, kWorkers };
constexpr int kLocks = 2;

std::mutex &mutex_of(Lock lock);

/// What compute() answers, always the same and not negative. `known` begins at -1. Threads that meet may both compute.
template <typename Compute>
int known_or(std::atomic<int> &known, Compute &&compute) {
    int answer = known.load(std::memory_order_relaxed);
    if (answer < 0) {
        answer = compute();
        known.store(answer, std::memory_order_relaxed);
    }
    return answer;
}

}  // namespace deformkit
