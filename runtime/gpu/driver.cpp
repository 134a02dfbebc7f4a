#include "runtime/gpu/driver.h"

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/interface/error.h"

namespace deformkit {

namespace {

struct SetStream {
    DLDevice device;
    void *stream;
};

std::vector<SetStream> &set_streams() {
    thread_local std::vector<SetStream> streams;
    return streams;
}

SetStream *find_stream(DLDevice device) {
    auto &streams = set_streams();
    const auto found = std::find_if(streams.begin(), streams.end(), [&](const SetStream &each) {
        return each.device.device_type == device.device_type && each.device.device_id == device.device_id;
    });
    return found == streams.end() ? nullptr : &*found;
}

}  // namespace

const char *device_type_name(DLDeviceType type) {
    return type == kDLCUDA ? "CUDA" : type == kDLOpenCL ? "OpenCL" : "host";
}

const Driver &driver_of(DLDeviceType type) {
    return type == kDLCUDA ? cuda_driver() : opencl_driver();
}

bool device_answers(DLDeviceType type) {
    static std::mutex mutex;
    static std::map<DLDeviceType, bool> answers;
    std::lock_guard<std::mutex> lock(mutex);
    const auto [entry, is_new] = answers.try_emplace(type, false);
    if (is_new) {
        try {
            driver_of(type).own_queue();
            entry->second = true;
        } catch (const Failure &) {
        }
    }
    return entry->second;
}

void require_gpu(DLDevice device) {
    if (device.device_type != kDLCUDA && device.device_type != kDLOpenCL) {
        throw Failure(DEFORMKIT_WRONG_DEVICE, "device: expected DLPack device type " + std::to_string(kDLCUDA) + " or " +
                                                  std::to_string(kDLOpenCL) + ", got " + std::to_string(device.device_type));
    }
}

void *stream_of(DLDevice device) {
    const SetStream *set = find_stream(device);
    return set == nullptr ? nullptr : set->stream;
}

void *find_function(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return handle == nullptr ? nullptr : dlsym(handle, name);
}

}  // namespace deformkit

deformkit_status deformkit_set_stream(DLDevice device, void *stream) {
    using namespace deformkit;
    return guarded([&] {
        require_gpu(device);
        if (SetStream *set = find_stream(device)) {
            set->stream = stream;
        } else {
            set_streams().push_back({device, stream});
        }
    });
}
