// CUDA's driver: the few functions that are called here, and what Halide's runtime is told to use.
#include <HalideRuntimeCuda.h>
#include <dlfcn.h>

#include <cstring>
#include <map>
#include <mutex>

#include "runtime/gpu/driver.h"
#include "runtime/interface/error.h"

namespace deformkit {

namespace {

constexpr char kLibrary[] = "libcuda.so.1";
constexpr int kOutOfMemory = 2;

/// Throws where the driver has no such function, when it is called.
template <typename Signature>
class Function;
template <typename... Args>
class Function<int(Args...)> {
public:
    explicit Function(const char *name) : name_(name), pointer_(reinterpret_cast<Pointer>(find_function(kLibrary, name))) {}

    bool found() const { return pointer_ != nullptr; }
    void operator()(Args... args) const {
        if (pointer_ == nullptr) {
            throw Failure(DEFORMKIT_DEVICE_FAILURE, std::string(kLibrary) + ": no driver, or one without " + name_);
        }
        if (const int error = pointer_(args...)) {
            throw Failure(error == kOutOfMemory ? DEFORMKIT_OUT_OF_MEMORY : DEFORMKIT_DEVICE_FAILURE,
                          std::string(name_) + ": " + error_text(error));
        }
    }

private:
    using Pointer = int (*)(Args...);

    static std::string error_text(int error) {
        static const auto describe = reinterpret_cast<int (*)(int, const char **)>(find_function(kLibrary, "cuGetErrorString"));
        const char *text = nullptr;
        const bool known = describe != nullptr && describe(error, &text) == 0 && text != nullptr;
        return "CUDA error " + std::to_string(error) + (known ? std::string(", ") + text : "");
    }

    const char *name_;
    Pointer pointer_;
};

/// Halide looks for libcuda.so, which only development packages have.
void *load_library(const char *name) {
    return dlopen(std::strcmp(name, "libcuda.so") == 0 ? kLibrary : name, RTLD_LAZY);
}

// At exit Halide asks without a queue: there is nothing that it would own.
int acquire_context(void *queue, void **context, bool) {
    *context = queue == nullptr ? nullptr : static_cast<const Queue *>(queue)->context;
    return 0;
}

int release_context(void *) {
    return 0;
}

int get_stream(void *queue, void *, void **stream) {
    *stream = queue == nullptr ? nullptr : static_cast<const Queue *>(queue)->stream;
    return 0;
}

class CudaDriver final : public Driver {
public:
    CudaDriver() {
        initialise(0);
        halide_set_custom_load_library(load_library);
        halide_set_cuda_acquire_context(acquire_context);
        halide_set_cuda_release_context(release_context);
        halide_set_cuda_get_stream(get_stream);
    }

    /// In the caller's context, if that is one of this device, or else the primary one, which PyTorch and others use.
    Queue queue_of(DLDevice device, void *stream) const override {
        void *context = nullptr;
        get_current(&context);
        if (context != nullptr) {
            int current_device = -1;
            get_device(&current_device);
            if (current_device == device.device_id) {
                return {device, context, stream};
            }
        }
        return {device, primary_context(device.device_id), stream};
    }

    Queue own_queue() const override {
        int count = 0;
        get_count(&count);
        if (count == 0) {
            throw Failure(DEFORMKIT_DEVICE_FAILURE, "CUDA: no device");
        }
        return queue_of({kDLCUDA, 0}, nullptr);
    }

    std::string device_name(const Queue &queue) const override {
        int device = 0;
        get_nth_device(&device, queue.device.device_id);
        char name[256] = "";
        get_name(name, sizeof(name), device);
        return name;
    }

    DeviceAddress allocate(const Queue &queue, size_t bytes) const override {
        const Current current(*this, queue);
        DeviceAddress address;
        memory_allocate(&address.offset, bytes);
        return address;
    }
    // cuMemFree waits for the device.
    void release(const Queue &queue, const DeviceAddress &address) const override {
        const Current current(*this, queue);
        memory_free(address.offset);
    }
    bool records(const Queue &queue) const override {
        int status = 0;
        if (is_capturing.found()) {
            const Current current(*this, queue);
            is_capturing(queue.stream, &status);
        }
        return status != 0;
    }
    DeviceAddress allocate_recorded(const Queue &queue, size_t bytes) const override {
        const Current current(*this, queue);
        DeviceAddress address;
        memory_allocate_async(&address.offset, bytes, queue.stream);
        return address;
    }
    void release_recorded(const Queue &queue, const DeviceAddress &address) const override {
        const Current current(*this, queue);
        memory_free_async(address.offset, queue.stream);
    }

    void clear(const Queue &queue, const DeviceAddress &address, size_t bytes) const override {
        const Current current(*this, queue);
        memory_set(address.offset, 0, bytes, queue.stream);
    }
    void copy_to_device(const Queue &queue, const void *from, const DeviceAddress &to, size_t bytes) const override {
        const Current current(*this, queue);
        memory_write(to.offset, from, bytes, queue.stream);
    }
    void copy_to_host(const Queue &queue, const DeviceAddress &from, void *to, size_t bytes) const override {
        const Current current(*this, queue);
        memory_read(to, from.offset, bytes, queue.stream);
        synchronize(queue.stream);
    }
    void wait(const Queue &queue) const override {
        const Current current(*this, queue);
        synchronize(queue.stream);
    }

    size_t object_bytes(const DeviceAddress &) const override { return SIZE_MAX; }
    size_t alignment(const Queue &) const override { return 1; }

private:
    /// Makes a queue's context this thread's, if it is not.
    class Current {
    public:
        Current(const CudaDriver &driver, const Queue &queue) : driver_(driver) {
            void *context = nullptr;
            driver_.get_current(&context);
            pushed_ = context != queue.context;
            if (pushed_) {
                driver_.push(queue.context);
            }
        }
        ~Current() {
            if (pushed_) {
                void *context = nullptr;
                try {
                    driver_.pop(&context);
                } catch (const Failure &) {
                }
            }
        }
        Current(const Current &) = delete;
        Current &operator=(const Current &) = delete;

    private:
        const CudaDriver &driver_;
        bool pushed_;
    };

    /// Kept until the process ends, as others keep it.
    void *primary_context(int device_id) const {
        std::lock_guard<std::mutex> lock(mutex_);
        void *&context = primary_contexts_[device_id];
        if (context == nullptr) {
            int device = 0;
            get_nth_device(&device, device_id);
            retain_primary(&context, device);
        }
        return context;
    }

    Function<int(unsigned)> initialise{"cuInit"};
    Function<int(int *)> get_count{"cuDeviceGetCount"};
    Function<int(int *, int)> get_nth_device{"cuDeviceGet"};
    Function<int(char *, int, int)> get_name{"cuDeviceGetName"};
    Function<int(void **)> get_current{"cuCtxGetCurrent"};
    Function<int(int *)> get_device{"cuCtxGetDevice"};
    Function<int(void **, int)> retain_primary{"cuDevicePrimaryCtxRetain"};
    Function<int(void *)> push{"cuCtxPushCurrent_v2"};
    Function<int(void **)> pop{"cuCtxPopCurrent_v2"};
    Function<int(uint64_t *, size_t)> memory_allocate{"cuMemAlloc_v2"};
    Function<int(uint64_t)> memory_free{"cuMemFree_v2"};
    Function<int(void *, int *)> is_capturing{"cuStreamIsCapturing"};
    Function<int(uint64_t *, size_t, void *)> memory_allocate_async{"cuMemAllocAsync"};
    Function<int(uint64_t, void *)> memory_free_async{"cuMemFreeAsync"};
    Function<int(uint64_t, unsigned char, size_t, void *)> memory_set{"cuMemsetD8Async"};
    Function<int(uint64_t, const void *, size_t, void *)> memory_write{"cuMemcpyHtoDAsync_v2"};
    Function<int(void *, uint64_t, size_t, void *)> memory_read{"cuMemcpyDtoHAsync_v2"};
    Function<int(void *)> synchronize{"cuStreamSynchronize"};

    mutable std::mutex mutex_;
    mutable std::map<int, void *> primary_contexts_;
};

}  // namespace

const Driver &cuda_driver() {
    static const Driver *driver = new CudaDriver;  // never destroyed: Halide's runtime asks for contexts until the process ends
    return *driver;
}

}  // namespace deformkit
