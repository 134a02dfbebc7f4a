// Where a call's tensors are: in host memory, or in copies in a device's.
#pragma once

#include <deformkit/deformkit.h>

#include <functional>
#include <vector>

namespace deformkit::testing {

enum class Place { kHost, kOpenCl, kCuda };

/// Of the calls of all threads, for the length of a scope.
class PlaceScope {
public:
    explicit PlaceScope(Place place);
    ~PlaceScope();
    PlaceScope(const PlaceScope &) = delete;
    PlaceScope &operator=(const PlaceScope &) = delete;
};
Place current_place();
/// Whether there is such a device here.
bool is_there(Place place);

/// A copy of a tensor in host memory in the device's of current_place(), with room on either side: as far from a proper address
/// as that is.
class DeviceCopy {
public:
    explicit DeviceCopy(const DLTensor &host);
    ~DeviceCopy();
    DeviceCopy(const DeviceCopy &) = delete;
    DeviceCopy &operator=(const DeviceCopy &) = delete;

    DLTensor *dl() { return &dl_; }
    /// Brings back what is there when calls have run. False if anything beside the tensor's memory, or, unless it is an output,
    /// in it, has changed.
    bool fetch(bool output);

private:
    DLTensor dl_;
    void *memory_;
    unsigned char *host_;
    std::vector<unsigned char> sent_;
    size_t first_, bytes_;
};

/// Makes the call where current_place() says. Fails the test if anything but outputs was written to.
deformkit_status call_in_place(const std::function<deformkit_status(const std::vector<DLTensor *> &)> &call,
                               const std::vector<DLTensor *> &arguments, const std::vector<bool> &outputs);

}  // namespace deformkit::testing
