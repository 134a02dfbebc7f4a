// A queue of jobs and the thread that does them, in order.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "compat/ascend/handles.h"

namespace deformkit::ascend {

class Job {
public:
    virtual ~Job() = default;
    /// On the stream's thread. Throws an Error.
    virtual void run(void *workspace) = 0;
};

class Stream {
public:
    Stream();
    ~Stream() { stop(); }
    Stream(const Stream &) = delete;
    Stream &operator=(const Stream &) = delete;

    /// Allocates nothing; waits while the queue is full. Throws an Error once the stream has been stopped.
    void submit(std::shared_ptr<Job> job, void *workspace);
    bool idle() const;
    /// Waits until there is nothing left to do.
    void wait();
    /// The same, at most so many milliseconds (negative: for as long as it takes). Throws the
    /// first Error of the jobs that have run since the last time, which it then forgets.
    void synchronize(int milliseconds = -1);
    /// Lets the queue run empty and ends the thread.
    void stop();

private:
    static constexpr size_t kCapacity = 1024;
    struct Entry {
        std::shared_ptr<Job> job;
        void *workspace = nullptr;
    };
    struct Failed {
        int code;
        std::string message;
    };

    void work();
    bool is_idle() const { return count_ == 0 && !busy_; }

    mutable std::mutex mutex_;
    std::condition_variable job_added_, job_done_;
    std::array<Entry, kCapacity> ring_;
    size_t first_ = 0, count_ = 0;
    bool busy_ = false, stopping_ = false;
    std::optional<Failed> first_failure_;
    std::once_flag stopped_;
    std::thread thread_;
};

Handles<Stream> &streams();

/// The stream that an aclrtStream stands for: NULL is the default stream of the thread's current context. Throws an Error.
std::shared_ptr<Stream> stream_of(void *handle);

}  // namespace deformkit::ascend
