#include "compat/ascend/device.h"

#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"
#include "compat/ascend/status.h"

namespace deformkit::ascend {

namespace {

/// Of the process or a context: what was set, where it was.
class Options {
public:
    void set(aclSysParamOpt option, int64_t value) {
        std::lock_guard<std::mutex> lock(mutex_);
        values_[option] = value;
    }

    std::optional<int64_t> get(aclSysParamOpt option) const {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = values_.find(option);
        return found == values_.end() ? std::nullopt : std::optional<int64_t>(found->second);
    }

private:
    mutable std::mutex mutex_;
    std::map<aclSysParamOpt, int64_t> values_;
};

Options &process_options() {
    static auto *all = new Options;
    return *all;
}

class Context {
public:
    std::shared_ptr<Stream> stream() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (stream_ == nullptr && open_) {
            stream_ = std::make_shared<Stream>();
        }
        return stream_;
    }

    /// nullptr if it has not been used.
    std::shared_ptr<Stream> started() const {
        std::lock_guard<std::mutex> lock(mutex_);
        return stream_;
    }

    Options options;

    void close() {
        std::shared_ptr<Stream> stream;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            open_ = false;
            stream = std::exchange(stream_, nullptr);
        }
        if (stream != nullptr) {
            stream->stop();
        }
    }

private:
    mutable std::mutex mutex_;
    std::shared_ptr<Stream> stream_;  // started when first used
    bool open_ = true;
};

struct Device {
    std::mutex mutex;
    int users = 0;            // calls of aclrtSetDevice without their aclrtResetDevice
    void *context = nullptr;  // the device's own, as long as there are users
};

Device &device() {
    static auto *the_device = new Device;
    return *the_device;
}

Handles<Context> &contexts() {
    static auto *all = new Handles<Context>;
    return *all;
}

thread_local void *current_context = nullptr;

std::shared_ptr<Context> current() {
    std::shared_ptr<Context> context = contexts().find(current_context);
    if (context == nullptr) {
        throw Error(ACL_ERROR_RT_CONTEXT_NULL, "this thread has no current device: expected aclrtSetDevice before");
    }
    return context;
}

void require_device_id(int32_t id) {
    if (id != 0) {
        throw Error(ACL_ERROR_RT_INVALID_DEVICEID, "deviceId: expected 0, the only device, got " + std::to_string(id));
    }
}

template <typename T>
void require_pointer(T *pointer, const char *name) {
    if (pointer == nullptr) {
        throw Error(ACL_ERROR_INVALID_PARAM, std::string(name) + ": expected where to put it, got NULL");
    }
}

void require_option(aclSysParamOpt option) {
    if (option < ACL_OPT_DETERMINISTIC || option > ACL_OPT_STRONG_CONSISTENCY) {
        throw Error(ACL_ERROR_INVALID_PARAM, "opt: expected one of aclSysParamOpt, got " + std::to_string(option));
    }
}

std::vector<std::shared_ptr<Stream>> all_streams() {
    std::vector<std::shared_ptr<Stream>> all = streams().all();
    for (const auto &context : contexts().all()) {
        if (std::shared_ptr<Stream> stream = context->started()) {
            all.push_back(std::move(stream));
        }
    }
    return all;
}

void wait_for_all_streams() {
    for (const auto &stream : all_streams()) {
        stream->wait();
    }
}

enum class State { kNew, kInitialised, kFinalised };
std::atomic<State> state{State::kNew};

}  // namespace

void require_device() {
    current();
}

std::shared_ptr<Stream> default_stream() {
    std::shared_ptr<Stream> stream = current()->stream();
    if (stream == nullptr) {
        throw Error(ACL_ERROR_RT_CONTEXT_NULL, "this thread's context has been destroyed");
    }
    return stream;
}

}  // namespace deformkit::ascend

using namespace deformkit::ascend;

aclError aclInit(const char *) {
    return returning(kAclCodes, [] {
        if (state.exchange(State::kInitialised) == State::kInitialised) {
            throw Error(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: has been called before");
        }
    });
}

aclError aclFinalize(void) {
    return returning(kAclCodes, [] {
        State expected = State::kInitialised;
        if (!state.compare_exchange_strong(expected, State::kFinalised)) {
            throw expected == State::kNew ? Error(ACL_ERROR_UNINITIALIZE, "aclFinalize: expected aclInit before")
                                          : Error(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: has been called before");
        }
        wait_for_all_streams();
    });
}

aclError aclrtSetDevice(int32_t deviceId) {
    return returning(kAclCodes, [&] {
        require_device_id(deviceId);
        Device &d = device();
        std::lock_guard<std::mutex> lock(d.mutex);
        if (d.users == 0) {
            d.context = contexts().add(std::make_shared<Context>());
        }
        d.users++;
        current_context = d.context;
    });
}

aclError aclrtResetDevice(int32_t deviceId) {
    return returning(kAclCodes, [&] {
        require_device_id(deviceId);
        Device &d = device();
        std::shared_ptr<Context> closed;
        {
            std::lock_guard<std::mutex> lock(d.mutex);
            if (d.users == 0) {
                throw Error(ACL_ERROR_RT_CONTEXT_NULL, "aclrtResetDevice: expected aclrtSetDevice before");
            }
            if (--d.users > 0) {
                return;
            }
            closed = contexts().take(std::exchange(d.context, nullptr));
        }
        closed->close();
        wait_for_all_streams();
    });
}

aclError aclrtGetDevice(int32_t *deviceId) {
    return returning(kAclCodes, [&] {
        require_pointer(deviceId, "deviceId");
        require_device();
        *deviceId = 0;
    });
}

aclError aclrtGetDeviceCount(uint32_t *count) {
    return returning(kAclCodes, [&] {
        require_pointer(count, "count");
        *count = 1;
    });
}

aclError aclrtGetRunMode(aclrtRunMode *runMode) {
    return returning(kAclCodes, [&] {
        require_pointer(runMode, "runMode");
        *runMode = ACL_HOST;
    });
}

aclError aclrtSynchronizeDevice(void) {
    return returning(kAclCodes, [] {
        require_device();
        // The first error of all, but only after all have been waited for.
        std::exception_ptr first;
        for (const auto &stream : all_streams()) {
            try {
                stream->synchronize();
            } catch (const Error &) {
                first = first ? first : std::current_exception();
            }
        }
        if (first) {
            std::rethrow_exception(first);
        }
    });
}

aclError aclrtCreateContext(aclrtContext *context, int32_t deviceId) {
    return returning(kAclCodes, [&] {
        require_pointer(context, "context");
        require_device_id(deviceId);
        *context = current_context = contexts().add(std::make_shared<Context>());
    });
}

aclError aclrtDestroyContext(aclrtContext context) {
    return returning(kAclCodes, [&] {
        {
            std::lock_guard<std::mutex> lock(device().mutex);
            if (context != nullptr && context == device().context) {
                throw Error(ACL_ERROR_INVALID_PARAM, "context: the device's own goes with aclrtResetDevice");
            }
        }
        const std::shared_ptr<Context> taken = contexts().take(context);
        if (taken == nullptr) {
            throw Error(ACL_ERROR_INVALID_PARAM, "context: expected one from aclrtCreateContext that has not been destroyed");
        }
        taken->close();
    });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
    return returning(kAclCodes, [&] {
        if (contexts().find(context) == nullptr) {
            throw Error(ACL_ERROR_INVALID_PARAM, "context: expected one from aclrtCreateContext that has not been destroyed");
        }
        current_context = context;
    });
}

aclError aclrtGetCurrentContext(aclrtContext *context) {
    return returning(kAclCodes, [&] {
        require_pointer(context, "context");
        require_device();
        *context = current_context;
    });
}

aclError aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return returning(kAclCodes, [&] {
        require_option(opt);
        process_options().set(opt, value);
    });
}

aclError aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    return returning(kAclCodes, [&] {
        require_option(opt);
        require_pointer(value, "value");
        *value = process_options().get(opt).value_or(0);
    });
}

aclError aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value) {
    return returning(kAclCodes, [&] {
        require_option(opt);
        current()->options.set(opt, value);
    });
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value) {
    return returning(kAclCodes, [&] {
        require_option(opt);
        require_pointer(value, "value");
        *value = current()->options.get(opt).value_or(process_options().get(opt).value_or(0));
    });
}

aclnnStatus aclnnInit(const char *) {
    return ACL_SUCCESS;
}

aclnnStatus aclnnFinalize(void) {
    return ACL_SUCCESS;
}
