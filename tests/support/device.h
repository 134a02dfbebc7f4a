// Memory of a device for tests and benchmarks, by the functions of its driver, whose headers need not be installed.
#pragma once

#include <dlpack/dlpack.h>

#include <vector>

namespace deformkit::testing {

class Device {
public:
    virtual ~Device() = default;
    virtual DLDevice dl() const = 0;
    virtual void *stream() const = 0;
    virtual void *copy_of(const std::vector<unsigned char> &bytes) const = 0;
    /// When all in the stream has run.
    virtual void fetch(void *memory, std::vector<unsigned char> &bytes) const = 0;
    virtual void release(void *memory) const = 0;
    /// For all in the stream.
    virtual void wait() const = 0;
};

/// The first one of kDLOpenCL or kDLCUDA; nullptr where there is none.
const Device *find_device(DLDeviceType type);

}  // namespace deformkit::testing
