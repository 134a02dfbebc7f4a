#include "compat/ascend/stream.h"

#include <chrono>
#include <utility>

#include "acl/acl_rt.h"
#include "compat/ascend/device.h"
#include "compat/ascend/status.h"

namespace deformkit::ascend {

Stream::Stream() : thread_([this] { work(); }) {}

void Stream::submit(std::shared_ptr<Job> job, void *workspace) {
    std::unique_lock<std::mutex> lock(mutex_);
    job_done_.wait(lock, [&] { return count_ < kCapacity || stopping_; });
    if (stopping_) {
        throw Error(ACL_ERROR_RT_INVALID_HANDLE, "stream: expected one that is not being destroyed");
    }
    ring_[(first_ + count_++) % kCapacity] = {std::move(job), workspace};
    job_added_.notify_one();
}

bool Stream::idle() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return is_idle();
}

void Stream::wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    job_done_.wait(lock, [&] { return is_idle(); });
}

void Stream::synchronize(int milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (milliseconds < 0) {
        job_done_.wait(lock, [&] { return is_idle(); });
    } else if (!job_done_.wait_for(lock, std::chrono::milliseconds(milliseconds), [&] { return is_idle(); })) {
        throw Error(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                    "stream: still at work after " + std::to_string(milliseconds) + " milliseconds");
    }
    if (first_failure_) {
        const Failed failed = *std::exchange(first_failure_, std::nullopt);
        throw Error(failed.code, failed.message);
    }
}

void Stream::stop() {
    std::call_once(stopped_, [&] {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stopping_ = true;
        }
        job_added_.notify_one();
        job_done_.notify_all();
        thread_.join();
    });
}

void Stream::work() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
        job_added_.wait(lock, [&] { return count_ > 0 || stopping_; });
        if (count_ == 0) {
            return;
        }
        Entry entry = std::move(ring_[first_]);
        first_ = (first_ + 1) % kCapacity;
        count_--;
        busy_ = true;
        lock.unlock();

        std::optional<Failed> failure;
        try {
            entry.job->run(entry.workspace);
        } catch (const Error &error) {
            failure = Failed{error.code(), error.what()};
        } catch (const std::exception &e) {
            failure = Failed{ACL_ERROR_RT_INTERNAL_ERROR, e.what()};
        }
        entry.job.reset();

        lock.lock();
        busy_ = false;
        if (failure && !first_failure_) {
            first_failure_ = std::move(failure);
        }
        job_done_.notify_all();
    }
}

Handles<Stream> &streams() {
    static auto *all = new Handles<Stream>;  // never destroyed: streams may outlive static destructors
    return *all;
}

std::shared_ptr<Stream> stream_of(void *handle) {
    if (handle == nullptr) {
        return default_stream();
    }
    std::shared_ptr<Stream> stream = streams().find(handle);
    if (stream == nullptr) {
        throw Error(ACL_ERROR_RT_INVALID_HANDLE, "stream: expected one from aclrtCreateStream that has not been destroyed");
    }
    return stream;
}

}  // namespace deformkit::ascend

using namespace deformkit::ascend;

aclError aclrtCreateStream(aclrtStream *stream) {
    return aclrtCreateStreamWithConfig(stream, 0, 0);
}

aclError aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t, uint32_t) {
    return returning(kAclCodes, [&] {
        if (stream == nullptr) {
            throw Error(ACL_ERROR_INVALID_PARAM, "stream: expected where to put it, got NULL");
        }
        require_device();
        *stream = streams().add(std::make_shared<Stream>());
    });
}

aclError aclrtDestroyStream(aclrtStream stream) {
    return returning(kAclCodes, [&] {
        const std::shared_ptr<Stream> taken = streams().take(stream);
        if (taken == nullptr) {
            throw Error(ACL_ERROR_RT_INVALID_HANDLE, "stream: expected one from aclrtCreateStream that has not been destroyed");
        }
        taken->stop();
    });
}

aclError aclrtSynchronizeStream(aclrtStream stream) {
    return returning(kAclCodes, [&] { stream_of(stream)->synchronize(); });
}

aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t timeout) {
    return returning(kAclCodes, [&] {
        if (timeout < -1) {
            throw Error(ACL_ERROR_INVALID_PARAM, "timeout: expected milliseconds or -1, got " + std::to_string(timeout));
        }
        stream_of(stream)->synchronize(timeout);
    });
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus *status) {
    return returning(kAclCodes, [&] {
        if (status == nullptr) {
            throw Error(ACL_ERROR_INVALID_PARAM, "status: expected where to put it, got NULL");
        }
        *status = stream_of(stream)->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    });
}
