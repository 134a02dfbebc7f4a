// A stand-in for CUDA's driver library: two devices whose memory is the host's, on which nothing runs. It tells what it was asked,
// one line a call, and fails when it is told to.
#include "tests/cuda/standin.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kInvalidValue = 1, kNotPermitted = 800;

std::mutex mutex;
std::string *calls = new std::string;
std::string failing;
int failing_error = 0, modules = 0, capturing = 0;
thread_local std::vector<void *> contexts;

void *primary(int device) {
    return reinterpret_cast<void *>(0x1000 + static_cast<uintptr_t>(device));
}

/// Other contexts' last digit says which device they are of.
int device_of(void *context) {
    return static_cast<int>(reinterpret_cast<uintptr_t>(context) & 1);
}

int said(const char *name, const std::string &what = "") {
    std::lock_guard<std::mutex> lock(mutex);
    const std::string line = name + (what.empty() ? "" : " " + what);
    *calls += line + "\n";
    if (std::getenv("DEFORMKIT_STANDIN_SHOWS") != nullptr) {
        std::fprintf(stderr, "%s\n", line.c_str());
    }
    return failing == name ? failing_error : 0;
}

std::string text(const void *pointer) {
    char digits[32];
    std::snprintf(digits, sizeof(digits), "%p", pointer);
    return digits;
}

/// What a thread that is capturing may not do.
int unless_captured(int error) {
    return error != 0 ? error : capturing != 0 ? kNotPermitted : 0;
}

int allocate(uint64_t *pointer, size_t bytes) {
    void *memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
    std::memset(memory, 0xff, bytes);
    *pointer = reinterpret_cast<uint64_t>(memory);
    return 0;
}

}  // namespace

extern "C" {

const char *standin_calls() {
    static std::string copy;
    std::lock_guard<std::mutex> lock(mutex);
    copy = *calls;
    calls->clear();
    return copy.c_str();
}

void standin_fails(const char *name, int error) {
    failing = name;
    failing_error = error;
}

void standin_captures(int captures) {
    capturing = captures;
}

#define SAYS(name, ...)         \
    int name(__VA_ARGS__) {     \
        return said(#name, ""); \
    }
SAYS(cuInit, unsigned)
SAYS(cuProfilerStop)
SAYS(cuCtxSynchronize)
SAYS(cuCtxDestroy_v2, void *)
SAYS(cuModuleUnload, void *)
SAYS(cuMemcpyHtoD_v2)
SAYS(cuMemcpyDtoH_v2)
SAYS(cuMemcpyDtoD_v2)
SAYS(cuMemcpyDtoDAsync_v2)
SAYS(cuMemcpy3D_v2)
SAYS(cuPointerGetAttribute)
SAYS(cuDeviceTotalMem_v2)
SAYS(cuCtxCreate_v2)
#undef SAYS

int cuDeviceGetCount(int *count) {
    *count = 2;
    return said("cuDeviceGetCount");
}
int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < 2 ? said("cuDeviceGet") : kInvalidValue;
}
int cuDeviceGetAttribute(int *value, int, int) {
    *value = 9;
    return said("cuDeviceGetAttribute");
}
int cuDeviceGetName(char *name, int length, int device) {
    std::snprintf(name, static_cast<size_t>(length), "stand-in %d", device);
    return said("cuDeviceGetName");
}
int cuGetErrorString(int error, const char **text) {
    *text = error == 2 ? "out of memory" : "what the stand-in was told to say";
    return 0;
}
int cuCtxGetApiVersion(void *, unsigned *version) {
    *version = 1;
    return said("cuCtxGetApiVersion");
}
int cuCtxGetCurrent(void **context) {
    *context = contexts.empty() ? nullptr : contexts.back();
    return said("cuCtxGetCurrent");
}
int cuCtxGetDevice(int *device) {
    if (contexts.empty()) {
        return kInvalidValue;
    }
    *device = device_of(contexts.back());
    return said("cuCtxGetDevice");
}
int cuCtxPushCurrent_v2(void *context) {
    contexts.push_back(context);
    return said("cuCtxPushCurrent", text(context));
}
int cuCtxPopCurrent_v2(void **context) {
    if (contexts.empty()) {
        return kInvalidValue;
    }
    *context = contexts.back();
    contexts.pop_back();
    return said("cuCtxPopCurrent");
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = primary(device);
    return said("cuDevicePrimaryCtxRetain", std::to_string(device));
}
int cuModuleLoadData(void **module, const void *) {
    *module = reinterpret_cast<void *>(static_cast<uintptr_t>(++modules));
    return unless_captured(said("cuModuleLoadData"));
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned, int *, void **) {
    return cuModuleLoadData(module, image);
}
int cuModuleGetFunction(void **function, void *, const char *name) {
    *function = const_cast<char *>(name);
    return said("cuModuleGetFunction");
}
int cuMemAlloc_v2(uint64_t *pointer, size_t bytes) {
    const int error = unless_captured(said("cuMemAlloc", std::to_string(bytes)));
    return error != 0 ? error : allocate(pointer, bytes);
}
int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream) {
    const int error = said("cuMemAllocAsync", text(stream));
    return error != 0 ? error : allocate(pointer, bytes);
}
int cuMemFree_v2(uint64_t pointer) {
    std::free(reinterpret_cast<void *>(pointer));
    return unless_captured(said("cuMemFree"));
}
int cuMemFreeAsync(uint64_t pointer, void *stream) {
    std::free(reinterpret_cast<void *>(pointer));
    return said("cuMemFreeAsync", text(stream));
}
int cuMemsetD8Async(uint64_t pointer, unsigned char byte, size_t bytes, void *stream) {
    std::memset(reinterpret_cast<void *>(pointer), byte, bytes);
    return said("cuMemsetD8Async", text(stream));
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream) {
    std::memcpy(reinterpret_cast<void *>(to), from, bytes);
    return said("cuMemcpyHtoDAsync", text(stream));
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream) {
    std::memcpy(to, reinterpret_cast<const void *>(from), bytes);
    return said("cuMemcpyDtoHAsync", text(stream));
}
int cuStreamIsCapturing(void *, int *status) {
    *status = capturing;
    return said("cuStreamIsCapturing");
}
int cuStreamSynchronize(void *stream) {
    return unless_captured(said("cuStreamSynchronize", text(stream)));
}
int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned, unsigned shared,
                   void *stream, void **, void **) {
    if (x == 0 || y == 0 || z == 0 || shared > 48 << 10) {
        return kInvalidValue;
    }
    const std::string where = " in " + text(contexts.empty() ? nullptr : contexts.back()) + " on " + text(stream);
    return said("cuLaunchKernel", static_cast<const char *>(function) + where);
}

}  // extern "C"
