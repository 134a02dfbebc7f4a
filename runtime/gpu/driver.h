// What is asked of a GPU's driver beside running kernels, which Halide's runtime does: of CUDA's and OpenCL's alike. Neither is
// linked: each is loaded when it is first needed.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace deformkit {

/// Where the work of a call goes, one piece after the other. Halide's runtime is handed one as its user_context.
struct Queue {
    DLDevice device;
    void *context;  ///< CUcontext or cl_context
    void *stream;   ///< CUstream or cl_command_queue
};

/// Memory of a device: CUDA's has an address, OpenCL's an object and a distance from its beginning.
struct DeviceAddress {
    void *object = nullptr;  ///< cl_mem
    uint64_t offset = 0;     ///< in bytes; CUdeviceptr

    DeviceAddress operator+(size_t bytes) const { return {object, offset + bytes}; }
};

/// All but wait() and the copies return at once. Failures are thrown.
class Driver {
public:
    virtual ~Driver() = default;

    /// For a call on tensors of `device`, whose caller has set `stream`, or nullptr.
    virtual Queue queue_of(DLDevice device, void *stream) const = 0;
    /// For tensors in host memory: of the first device. Throws where none answers.
    virtual Queue own_queue() const = 0;
    virtual std::string device_name(const Queue &queue) const = 0;

    virtual DeviceAddress allocate(const Queue &queue, size_t bytes) const = 0;
    /// When all that is in the queue has run.
    virtual void release(const Queue &queue, const DeviceAddress &address) const = 0;
    /// Whether calls are recorded rather than run, into a graph that may run later, beside other calls.
    virtual bool records(const Queue &queue) const = 0;
    /// The same as allocate() and release(), as part of what is recorded.
    virtual DeviceAddress allocate_recorded(const Queue &queue, size_t bytes) const = 0;
    virtual void release_recorded(const Queue &queue, const DeviceAddress &address) const = 0;

    virtual void clear(const Queue &queue, const DeviceAddress &address, size_t bytes) const = 0;
    virtual void copy_to_device(const Queue &queue, const void *from, const DeviceAddress &to, size_t bytes) const = 0;
    virtual void copy_to_host(const Queue &queue, const DeviceAddress &from, void *to, size_t bytes) const = 0;
    virtual void wait(const Queue &queue) const = 0;

    /// Bytes that an object holds, where that is known, and steps of addresses at which a kernel's buffer may begin.
    virtual size_t object_bytes(const DeviceAddress &address) const = 0;
    virtual size_t alignment(const Queue &queue) const = 0;
};

/// kDLCUDA's or kDLOpenCL's. Throws where it cannot be loaded.
const Driver &driver_of(DLDeviceType type);
const Driver &cuda_driver();
const Driver &opencl_driver();

/// Whether own_queue() works. Asked once: drivers take their time.
bool device_answers(DLDeviceType type);

/// "CUDA" or "OpenCL".
const char *device_type_name(DLDeviceType type);

/// Throws for other devices than these.
void require_gpu(DLDevice device);

/// What this thread has set by deformkit_set_stream(), or nullptr.
void *stream_of(DLDevice device);

/// A function of a driver's library, or nullptr.
void *find_function(const char *library, const char *name);

}  // namespace deformkit
