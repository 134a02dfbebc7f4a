// Memory of a device that a call needs beside its tensors: kept from call to call, for each queue.
#pragma once

#include <memory>
#include <mutex>

#include "runtime/gpu/driver.h"

namespace deformkit {

/// A block for the length of one call: work of other calls does not come in between, in this queue. While a call is recorded, it
/// is part of the record.
class CallBlock {
public:
    /// What of a call it is for: one that copies tensors from the host has one of each.
    enum class Use { kTensors, kWorkspace };

    CallBlock(const Driver &driver, const Queue &queue, size_t bytes, Use use);
    ~CallBlock();
    CallBlock(const CallBlock &) = delete;
    CallBlock &operator=(const CallBlock &) = delete;

    DeviceAddress begin() const { return begin_; }

private:
    struct Kept;
    friend void release_kept_blocks(DLDevice device);
    static std::shared_ptr<Kept> kept_for(const Queue &queue, Use use);

    const Driver &driver_;
    Queue queue_;
    bool recorded_;
    DeviceAddress begin_;
    std::shared_ptr<Kept> kept_;
    std::unique_lock<std::mutex> lock_;
};

/// Of all queues of the device, when calls that use them have been made.
void release_kept_blocks(DLDevice device);

}  // namespace deformkit
