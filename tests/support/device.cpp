#include "tests/support/device.h"

#include <dlfcn.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace deformkit::testing {

namespace {

/// A function of a driver's library, whose headers need not be installed; throws where it is not there.
template <typename Signature>
Signature *function(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW);
    void *found = handle == nullptr ? nullptr : dlsym(handle, name);
    if (found == nullptr) {
        throw std::runtime_error(std::string(library) + ": no " + name);
    }
    return reinterpret_cast<Signature *>(found);
}

void require(int error, const char *what) {
    if (error != 0) {
        throw std::runtime_error(std::string(what) + ": error " + std::to_string(error));
    }
}

class OpenCl final : public Device {
public:
    OpenCl() {
        void *platform = nullptr, *device = nullptr;
        require(get<int(unsigned, void **, unsigned *)>("clGetPlatformIDs")(1, &platform, nullptr), "clGetPlatformIDs");
        constexpr uint64_t kAnyKind = 0xffffffff;
        require(get<int(void *, uint64_t, unsigned, void **, unsigned *)>("clGetDeviceIDs")(platform, kAnyKind, 1, &device,
                                                                                            nullptr),
                "clGetDeviceIDs");
        int error = 0;
        context_ = get<void *(const intptr_t *, unsigned, void **, void *, void *, int *)>("clCreateContext")(
            nullptr, 1, &device, nullptr, nullptr, &error);
        require(error, "clCreateContext");
        queue_ = get<void *(void *, void *, uint64_t, int *)>("clCreateCommandQueue")(context_, device, 0, &error);
        require(error, "clCreateCommandQueue");
    }
    DLDevice dl() const override { return {kDLOpenCL, 0}; }
    void *stream() const override { return queue_; }
    void *copy_of(const std::vector<unsigned char> &bytes) const override {
        constexpr uint64_t kCopyHost = 1 << 5, kReadWrite = 1;
        int error = 0;
        void *memory =
            create_(context_, kReadWrite | kCopyHost, bytes.size(), const_cast<unsigned char *>(bytes.data()), &error);
        require(error, "clCreateBuffer");
        return memory;
    }
    void fetch(void *memory, std::vector<unsigned char> &bytes) const override {
        require(read_(queue_, memory, 1, 0, bytes.size(), bytes.data(), 0, nullptr, nullptr), "clEnqueueReadBuffer");
    }
    void release(void *memory) const override { release_(memory); }
    void wait() const override { require(finish_(queue_), "clFinish"); }

private:
    template <typename Signature>
    static Signature *get(const char *name) {
        return function<Signature>("libOpenCL.so.1", name);
    }

    void *context_, *queue_;
    void *(*create_)(void *, uint64_t, size_t, void *,
                     int *) = get<void *(void *, uint64_t, size_t, void *, int *)>("clCreateBuffer");
    int (*read_)(void *, void *, unsigned, size_t, size_t, void *, unsigned, void *, void *) =
        get<int(void *, void *, unsigned, size_t, size_t, void *, unsigned, void *, void *)>("clEnqueueReadBuffer");
    int (*release_)(void *) = get<int(void *)>("clReleaseMemObject");
    int (*finish_)(void *) = get<int(void *)>("clFinish");
};

class Cuda final : public Device {
public:
    Cuda() {
        int device = 0;
        require(get<int(unsigned)>("cuInit")(0), "cuInit");
        require(get<int(int *, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
        require(get<int(void **, int)>("cuDevicePrimaryCtxRetain")(&context_, device), "cuDevicePrimaryCtxRetain");
        const Current current(*this);
        constexpr unsigned kNonBlocking = 1;
        require(get<int(void **, unsigned)>("cuStreamCreate")(&stream_, kNonBlocking), "cuStreamCreate");
    }
    DLDevice dl() const override { return {kDLCUDA, 0}; }
    void *stream() const override { return stream_; }
    void *copy_of(const std::vector<unsigned char> &bytes) const override {
        const Current current(*this);
        uint64_t address = 0;
        require(allocate_(&address, bytes.size()), "cuMemAlloc");
        require(write_(address, bytes.data(), bytes.size()), "cuMemcpyHtoD");
        return reinterpret_cast<void *>(address);
    }
    void fetch(void *memory, std::vector<unsigned char> &bytes) const override {
        const Current current(*this);
        require(synchronize_(stream_), "cuStreamSynchronize");
        require(read_(bytes.data(), reinterpret_cast<uint64_t>(memory), bytes.size()), "cuMemcpyDtoH");
    }
    void release(void *memory) const override {
        const Current current(*this);
        free_(reinterpret_cast<uint64_t>(memory));
    }
    void wait() const override {
        const Current current(*this);
        require(synchronize_(stream_), "cuStreamSynchronize");
    }

private:
    /// The library is not to find a context: it has to find the primary one by itself.
    struct Current {
        const Cuda &cuda;
        explicit Current(const Cuda &of) : cuda(of) { require(cuda.push_(cuda.context_), "cuCtxPushCurrent"); }
        ~Current() {
            void *context = nullptr;
            cuda.pop_(&context);
        }
    };
    template <typename Signature>
    static Signature *get(const char *name) {
        return function<Signature>("libcuda.so.1", name);
    }

    int (*push_)(void *) = get<int(void *)>("cuCtxPushCurrent_v2");
    int (*pop_)(void **) = get<int(void **)>("cuCtxPopCurrent_v2");
    int (*allocate_)(uint64_t *, size_t) = get<int(uint64_t *, size_t)>("cuMemAlloc_v2");
    int (*free_)(uint64_t) = get<int(uint64_t)>("cuMemFree_v2");
    int (*write_)(uint64_t, const void *, size_t) = get<int(uint64_t, const void *, size_t)>("cuMemcpyHtoD_v2");
    int (*read_)(void *, uint64_t, size_t) = get<int(void *, uint64_t, size_t)>("cuMemcpyDtoH_v2");
    int (*synchronize_)(void *) = get<int(void *)>("cuStreamSynchronize");
    void *context_ = nullptr, *stream_ = nullptr;
};

/// nullptr where it is not there.
template <typename Kind>
const Device *device() {
    static const std::unique_ptr<const Device> instance = []() -> std::unique_ptr<const Device> {
        try {
            return std::make_unique<Kind>();
        } catch (const std::runtime_error &) {
            return nullptr;
        }
    }();
    return instance.get();
}

}  // namespace

const Device *find_device(DLDeviceType type) {
    return type == kDLOpenCL ? device<OpenCl>() : type == kDLCUDA ? device<Cuda>() : nullptr;
}

}  // namespace deformkit::testing
