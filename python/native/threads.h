// The number of threads of a process in which several frameworks call the library.
#pragma once

#include <deformkit/deformkit.h>

#include <atomic>
#include <mutex>

namespace deformkit::python {

/// The library's number of threads is that of the process. A caller with a number of its own, such as PyTorch, lends it to its
/// calls; the next call without one gets back what was there before.
class Threads {
public:
    static constexpr int kNone = -1;

    deformkit_status lend(int count) {
        if (count == lent_) {
            return DEFORMKIT_OK;
        }
        const std::lock_guard<std::mutex> guard(mutex_);
        if (lent_ == kNone) {
            own_ = deformkit_get_num_threads();
        }
        return change(count == kNone ? own_ : count, count);
    }

    deformkit_status set(int count) {
        const std::lock_guard<std::mutex> guard(mutex_);
        return change(count, kNone);
    }

    /// Negative if the environment's number makes no sense.
    int get() {
        const std::lock_guard<std::mutex> guard(mutex_);
        return lent_ == kNone ? deformkit_get_num_threads() : own_;
    }

private:
    deformkit_status change(int count, int lent) {
        const deformkit_status status = deformkit_set_num_threads(count);
        if (status == DEFORMKIT_OK) {
            lent_ = lent;
        }
        return status;
    }

    std::mutex mutex_;
    int own_ = 0;
    std::atomic<int> lent_{kNone};
};

}  // namespace deformkit::python
