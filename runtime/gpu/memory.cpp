#include "runtime/gpu/memory.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "runtime/interface/error.h"

namespace deformkit {

struct CallBlock::Kept {
    std::mutex mutex;
    DeviceAddress begin;
    size_t bytes = 0;
};

namespace {

using Key = std::tuple<int, int, void *, void *, int>;

struct KeptBlocks {
    std::mutex mutex;
    std::map<Key, std::pair<Queue, std::shared_ptr<void>>> of;
};

KeptBlocks &kept_blocks() {
    static KeptBlocks *instance = new KeptBlocks;  // never destroyed: drivers may have ended before static destructors run
    return *instance;
}

}  // namespace

std::shared_ptr<CallBlock::Kept> CallBlock::kept_for(const Queue &queue, Use use) {
    const Key key = {queue.device.device_type, queue.device.device_id, queue.context, queue.stream, static_cast<int>(use)};
    KeptBlocks &all = kept_blocks();
    std::lock_guard<std::mutex> lock(all.mutex);
    auto &[of, kept] = all.of[key];
    if (kept == nullptr) {
        of = queue;
        kept = std::make_shared<Kept>();
    }
    return std::static_pointer_cast<Kept>(kept);
}

CallBlock::CallBlock(const Driver &driver, const Queue &queue, size_t bytes, Use use)
    : driver_(driver), queue_(queue), recorded_(driver.records(queue)) {
    if (recorded_) {
        begin_ = driver.allocate_recorded(queue, bytes);
        return;
    }
    kept_ = kept_for(queue, use);
    lock_ = std::unique_lock<std::mutex>(kept_->mutex);
    if (kept_->bytes < bytes) {
        // By half as much again at least: calls of growing sizes are not to allocate each time.
        const size_t wanted = std::max(bytes, kept_->bytes + kept_->bytes / 2);
        if (kept_->bytes > 0) {
            kept_->bytes = 0;
            driver.release(queue, kept_->begin);
        }
        kept_->begin = driver.allocate(queue, wanted);
        kept_->bytes = wanted;
    }
    begin_ = kept_->begin;
}

CallBlock::~CallBlock() {
    if (recorded_) {
        try {
            driver_.release_recorded(queue_, begin_);
        } catch (const Failure &) {
        }
    }
}

void release_kept_blocks(DLDevice device) {
    KeptBlocks &all = kept_blocks();
    std::lock_guard<std::mutex> lock(all.mutex);
    for (const auto &[key, entry] : all.of) {
        const Queue &queue = entry.first;
        if (queue.device.device_type == device.device_type && queue.device.device_id == device.device_id) {
            const auto kept = std::static_pointer_cast<CallBlock::Kept>(entry.second);
            std::lock_guard<std::mutex> in_use(kept->mutex);
            if (kept->bytes > 0) {
                kept->bytes = 0;
                driver_of(device.device_type).release(queue, kept->begin);
            }
        }
    }
}

}  // namespace deformkit

deformkit_status deformkit_release_workspaces(DLDevice device) {
    return deformkit::guarded([&] { deformkit::release_kept_blocks(device); });
}
