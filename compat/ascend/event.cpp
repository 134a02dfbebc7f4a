// Events: places in streams' queues that others wait for, and clocks.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "acl/acl_rt.h"
#include "compat/ascend/device.h"
#include "compat/ascend/handles.h"
#include "compat/ascend/status.h"
#include "compat/ascend/stream.h"

namespace deformkit::ascend {

namespace {

using Clock = std::chrono::steady_clock;

class Event {
public:
    /// Records are counted, so that whoever waits knows for which.
    uint64_t asked() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return asked_;
    }

    void ask() {
        std::lock_guard<std::mutex> lock(mutex_);
        asked_++;
    }

    void reach() {
        std::lock_guard<std::mutex> lock(mutex_);
        reached_++;
        when_ = Clock::now();
        changed_.notify_all();
    }

    void reset() {
        std::lock_guard<std::mutex> lock(mutex_);
        forgotten_ = asked_;
        changed_.notify_all();
    }

    bool is_recorded() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return asked_ > forgotten_;
    }

    bool has_reached(uint64_t record) const {
        std::lock_guard<std::mutex> lock(mutex_);
        return is_over(record);
    }

    /// Negative: for as long as it takes. False if it was too long.
    bool wait(uint64_t record, int milliseconds = -1) const {
        std::unique_lock<std::mutex> lock(mutex_);
        const auto over = [&] { return is_over(record); };
        if (milliseconds < 0) {
            changed_.wait(lock, over);
            return true;
        }
        return changed_.wait_for(lock, std::chrono::milliseconds(milliseconds), over);
    }

    Clock::time_point when() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return when_;
    }

private:
    bool is_over(uint64_t record) const { return reached_ >= record || forgotten_ >= record; }

    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    uint64_t asked_ = 0, reached_ = 0, forgotten_ = 0;
    Clock::time_point when_;
};

struct Record : Job {
    std::shared_ptr<Event> event;

    explicit Record(std::shared_ptr<Event> event) : event(std::move(event)) {}
    void run(void *) override { event->reach(); }
};

struct Wait : Job {
    std::shared_ptr<Event> event;
    uint64_t record;

    Wait(std::shared_ptr<Event> event, uint64_t record) : event(std::move(event)), record(record) {}
    void run(void *) override { event->wait(record); }
};

Handles<Event> &events() {
    static auto *all = new Handles<Event>;
    return *all;
}

std::shared_ptr<Event> event_of(aclrtEvent handle, const char *name = "event") {
    std::shared_ptr<Event> event = events().find(handle);
    if (event == nullptr) {
        throw Error(ACL_ERROR_RT_INVALID_HANDLE,
                    std::string(name) + ": expected one from aclrtCreateEvent that has not been destroyed");
    }
    return event;
}

template <typename T>
void require_place(T *place, const char *name) {
    if (place == nullptr) {
        throw Error(ACL_ERROR_INVALID_PARAM, std::string(name) + ": expected where to put it, got NULL");
    }
}

Clock::time_point time_of(aclrtEvent handle, const char *name) {
    const std::shared_ptr<Event> event = event_of(handle, name);
    if (!event->is_recorded() || !event->has_reached(event->asked())) {
        throw Error(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
                    std::string(name) + ": expected one that has been recorded and reached");
    }
    return event->when();
}

}  // namespace

}  // namespace deformkit::ascend

using namespace deformkit::ascend;

aclError aclrtCreateEvent(aclrtEvent *event) {
    return aclrtCreateEventExWithFlag(event, 0);
}

aclError aclrtCreateEventWithFlag(aclrtEvent *event, uint32_t flag) {
    return aclrtCreateEventExWithFlag(event, flag);
}

aclError aclrtCreateEventExWithFlag(aclrtEvent *event, uint32_t) {
    return returning(kAclCodes, [&] {
        require_place(event, "event");
        require_device();
        *event = events().add(std::make_shared<Event>());
    });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
    return returning(kAclCodes, [&] {
        event_of(event);
        events().take(event);
    });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
    return returning(kAclCodes, [&] {
        const std::shared_ptr<Event> found = event_of(event);
        stream_of(stream)->submit(std::make_shared<Record>(found), nullptr);
        found->ask();
    });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
    return returning(kAclCodes, [&] {
        const std::shared_ptr<Event> found = event_of(event);
        stream_of(stream);
        found->reset();
    });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus *status) {
    return returning(kAclCodes, [&] {
        require_place(status, "status");
        const std::shared_ptr<Event> found = event_of(event);
        *status = found->has_reached(found->asked()) ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    });
}

aclError aclrtQueryEvent(aclrtEvent event, aclrtEventStatus *status) {
    return returning(kAclCodes, [&] {
        require_place(status, "status");
        const std::shared_ptr<Event> found = event_of(event);
        *status = found->has_reached(found->asked()) ? ACL_EVENT_STATUS_COMPLETE : ACL_EVENT_STATUS_NOT_READY;
    });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
    return aclrtSynchronizeEventWithTimeout(event, -1);
}

aclError aclrtSynchronizeEventWithTimeout(aclrtEvent event, int32_t timeout) {
    return returning(kAclCodes, [&] {
        if (timeout < -1) {
            throw Error(ACL_ERROR_INVALID_PARAM, "timeout: expected milliseconds or -1, got " + std::to_string(timeout));
        }
        const std::shared_ptr<Event> found = event_of(event);
        if (!found->wait(found->asked(), timeout)) {
            throw Error(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                        "event: not reached after " + std::to_string(timeout) + " milliseconds");
        }
    });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
    return returning(kAclCodes, [&] {
        const std::shared_ptr<Event> found = event_of(event);
        stream_of(stream)->submit(std::make_shared<Wait>(found, found->asked()), nullptr);
    });
}

aclError aclrtEventElapsedTime(float *ms, aclrtEvent startEvent, aclrtEvent endEvent) {
    return returning(kAclCodes, [&] {
        require_place(ms, "ms");
        const Clock::time_point start = time_of(startEvent, "startEvent");
        *ms = std::chrono::duration<float, std::milli>(time_of(endEvent, "endEvent") - start).count();
    });
}
