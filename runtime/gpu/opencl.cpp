// OpenCL's driver: the few functions that are called here, and what Halide's runtime is told to use.
#include <HalideRuntimeOpenCL.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/gpu/driver.h"
#include "runtime/interface/error.h"

namespace deformkit {

namespace {

constexpr char kLibrary[] = "libOpenCL.so.1";

// Of CL/cl.h, which need not be installed.
constexpr int kAllocationFailure = -4, kOutOfHostMemory = -6;
constexpr uint64_t kDeviceTypeGpu = 4, kDeviceTypeAll = 0xffffffff, kReadWrite = 1, kOutOfOrder = 1;
constexpr unsigned kDeviceName = 0x102b, kDeviceAlignment = 0x1019, kQueueContext = 0x1090, kQueueDevice = 0x1091,
                   kQueueProperties = 0x1093, kMemorySize = 0x1102, kTrue = 1;

template <typename Signature>
class Function;
template <typename Result, typename... Args>
class Function<Result(Args...)> {
public:
    explicit Function(const char *name) : name_(name), pointer_(reinterpret_cast<Pointer>(find_function(kLibrary, name))) {}

    Result operator()(Args... args) const {
        if (pointer_ == nullptr) {
            throw Failure(DEFORMKIT_DEVICE_FAILURE, std::string(kLibrary) + ": not there, or without " + name_);
        }
        return pointer_(args...);
    }
    /// Throws what the call returned as an error.
    void check(Args... args) const { require((*this)(args...)); }
    void require(int error) const {
        if (error != 0) {
            throw Failure(
                error == kAllocationFailure || error == kOutOfHostMemory ? DEFORMKIT_OUT_OF_MEMORY : DEFORMKIT_DEVICE_FAILURE,
                std::string(name_) + ": OpenCL error " + std::to_string(error));
        }
    }

private:
    using Pointer = Result (*)(Args...);
    const char *name_;
    Pointer pointer_;
};

class OpenClDriver final : public Driver {
public:
    /// The caller's queue says which context and device.
    Queue queue_of(DLDevice device, void *stream) const override {
        if (stream == nullptr) {
            throw Failure(DEFORMKIT_INVALID_VALUE, "stream: expected a command queue for OpenCL device " +
                                                       std::to_string(device.device_id) +
                                                       ", set by deformkit_set_stream(), got none");
        }
        Queue queue = {device, nullptr, stream};
        uint64_t properties = 0;
        queue_info.check(stream, kQueueContext, sizeof(queue.context), &queue.context, nullptr);
        queue_info.check(stream, kQueueProperties, sizeof(properties), &properties, nullptr);
        if ((properties & kOutOfOrder) != 0) {
            throw Failure(DEFORMKIT_INVALID_VALUE, "stream: expected a command queue that keeps the order of commands");
        }
        return queue;
    }

    Queue own_queue() const override {
        static const Queue queue = make_queue();
        return queue;
    }

    std::string device_name(const Queue &queue) const override {
        char name[256] = "";
        device_info.check(device_of(queue), kDeviceName, sizeof(name) - 1, name, nullptr);
        return name;
    }

    DeviceAddress allocate(const Queue &queue, size_t bytes) const override {
        int error = 0;
        void *object = create_buffer(queue.context, kReadWrite, bytes, nullptr, &error);
        create_buffer.require(error);
        return {object, 0};
    }
    // OpenCL itself waits for the commands that use it.
    void release(const Queue &, const DeviceAddress &address) const override { release_memory.check(address.object); }
    bool records(const Queue &) const override { return false; }
    DeviceAddress allocate_recorded(const Queue &queue, size_t bytes) const override { return allocate(queue, bytes); }
    void release_recorded(const Queue &queue, const DeviceAddress &address) const override { release(queue, address); }

    void clear(const Queue &queue, const DeviceAddress &address, size_t bytes) const override {
        const unsigned char zero = 0;
        fill.check(queue.stream, address.object, &zero, 1, address.offset, bytes, 0, nullptr, nullptr);
    }
    void copy_to_device(const Queue &queue, const void *from, const DeviceAddress &to, size_t bytes) const override {
        write.check(queue.stream, to.object, kTrue, to.offset, bytes, from, 0, nullptr, nullptr);
    }
    void copy_to_host(const Queue &queue, const DeviceAddress &from, void *to, size_t bytes) const override {
        read.check(queue.stream, from.object, kTrue, from.offset, bytes, to, 0, nullptr, nullptr);
    }
    void wait(const Queue &queue) const override { finish.check(queue.stream); }

    size_t object_bytes(const DeviceAddress &address) const override {
        size_t bytes = 0;
        memory_info.check(address.object, kMemorySize, sizeof(bytes), &bytes, nullptr);
        return bytes;
    }
    size_t alignment(const Queue &queue) const override {
        std::lock_guard<std::mutex> lock(mutex_);
        size_t &bytes = alignments_[queue.context];
        if (bytes == 0) {
            unsigned bits = 0;
            device_info.check(device_of(queue), kDeviceAlignment, sizeof(bits), &bits, nullptr);
            bytes = std::max(1u, bits / 8);
        }
        return bytes;
    }

private:
    void *device_of(const Queue &queue) const {
        void *device = nullptr;
        queue_info.check(queue.stream, kQueueDevice, sizeof(device), &device, nullptr);
        return device;
    }

    /// The first GPU, or else the first device of any kind, of all platforms.
    void *first_device() const {
        unsigned count = 0;
        if (platform_ids(0, nullptr, &count) != 0 || count == 0) {
            throw Failure(DEFORMKIT_DEVICE_FAILURE, "OpenCL: no platform");
        }
        std::vector<void *> platforms(count);
        platform_ids.check(count, platforms.data(), nullptr);
        for (const uint64_t type : {kDeviceTypeGpu, kDeviceTypeAll}) {
            for (void *platform : platforms) {
                void *device = nullptr;
                if (device_ids(platform, type, 1, &device, nullptr) == 0) {
                    return device;
                }
            }
        }
        throw Failure(DEFORMKIT_DEVICE_FAILURE, "OpenCL: no device");
    }

    Queue make_queue() const {
        void *device = first_device();
        int error = 0;
        void *context = create_context(nullptr, 1, &device, nullptr, nullptr, &error);
        create_context.require(error);
        void *stream = create_queue(context, device, 0, &error);
        create_queue.require(error);
        return {{kDLOpenCL, 0}, context, stream};
    }

    Function<int(unsigned, void **, unsigned *)> platform_ids{"clGetPlatformIDs"};
    Function<int(void *, uint64_t, unsigned, void **, unsigned *)> device_ids{"clGetDeviceIDs"};
    Function<int(void *, unsigned, size_t, void *, size_t *)> device_info{"clGetDeviceInfo"};
    Function<void *(const intptr_t *, unsigned, void **, void *, void *, int *)> create_context{"clCreateContext"};
    Function<void *(void *, void *, uint64_t, int *)> create_queue{"clCreateCommandQueue"};
    Function<int(void *, unsigned, size_t, void *, size_t *)> queue_info{"clGetCommandQueueInfo"};
    Function<void *(void *, uint64_t, size_t, void *, int *)> create_buffer{"clCreateBuffer"};
    Function<int(void *)> release_memory{"clReleaseMemObject"};
    Function<int(void *, unsigned, size_t, void *, size_t *)> memory_info{"clGetMemObjectInfo"};
    Function<int(void *, void *, const void *, size_t, size_t, size_t, unsigned, void *, void *)> fill{"clEnqueueFillBuffer"};
    Function<int(void *, void *, unsigned, size_t, size_t, const void *, unsigned, void *, void *)> write{
        "clEnqueueWriteBuffer"};
    Function<int(void *, void *, unsigned, size_t, size_t, void *, unsigned, void *, void *)> read{"clEnqueueReadBuffer"};
    Function<int(void *)> finish{"clFinish"};

    mutable std::mutex mutex_;
    mutable std::map<void *, size_t> alignments_;
};

}  // namespace

const Driver &opencl_driver() {
    static const Driver *driver = [] {
        auto made = std::make_unique<OpenClDriver>();
        // Halide's runtime loads its functions when they are first needed, with no lock.
        const Queue queue = made->own_queue();
        halide_device_sync_global(const_cast<Queue *>(&queue), halide_opencl_device_interface());
        return made.release();  // never destroyed: threads may outlive static destructors
    }();
    return *driver;
}

}  // namespace deformkit

// In place of Halide's own, which would make a context and a queue. At exit it asks without a queue.
extern "C" int halide_acquire_cl_context(void *queue, void **context, void **stream, bool) {
    const auto *in = static_cast<const deformkit::Queue *>(queue);
    *context = in == nullptr ? nullptr : in->context;
    *stream = in == nullptr ? nullptr : in->stream;
    return 0;
}

extern "C" int halide_release_cl_context(void *) {
    return 0;
}
