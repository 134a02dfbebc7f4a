#include "tests/place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>

#include "tests/support/device.h"

namespace deformkit::testing {

namespace {

std::atomic<Place> place{Place::kHost};

const Device *device_at(Place at) {
    return find_device(at == Place::kOpenCl ? kDLOpenCL : at == Place::kCuda ? kDLCUDA : kDLCPU);
}

constexpr size_t kRoom = 1024;
constexpr unsigned char kBeside = 0xa5;

}  // namespace

PlaceScope::PlaceScope(Place of) {
    place = of;
}
PlaceScope::~PlaceScope() {
    place = Place::kHost;
}
Place current_place() {
    return place;
}
bool is_there(Place at) {
    return at == Place::kHost || device_at(at) != nullptr;
}

DeviceCopy::DeviceCopy(const DLTensor &host) : dl_(host) {
    int64_t low = 0, high = 0, step = 1;
    bool empty = host.data == nullptr;
    for (int i = host.ndim - 1; i >= 0; i--) {
        const int64_t reach = (host.shape[i] - 1) * (host.strides != nullptr ? host.strides[i] : step);
        step *= host.shape[i];
        (reach < 0 ? low : high) += reach;
        empty = empty || host.shape[i] == 0;
    }
    const int64_t element = host.dtype.bits / 8;
    host_ = static_cast<unsigned char *>(host.data) + host.byte_offset + low * element;
    bytes_ = empty ? 0 : (high - low + 1) * element;
    first_ = kRoom + reinterpret_cast<uintptr_t>(host_) % 512;
    sent_.assign(first_ + bytes_ + kRoom, kBeside);
    std::copy_n(host_, bytes_, sent_.begin() + static_cast<ptrdiff_t>(first_));
    const Device &device = *device_at(place);
    memory_ = device.copy_of(sent_);
    dl_.data = host.data == nullptr ? nullptr : memory_;
    dl_.byte_offset = first_ - low * element;
    dl_.device = device.dl();
}

DeviceCopy::~DeviceCopy() {
    device_at(place)->release(memory_);
}

bool DeviceCopy::fetch(bool output) {
    std::vector<unsigned char> now(sent_.size());
    device_at(place)->fetch(memory_, now);
    const auto first = now.begin() + static_cast<ptrdiff_t>(first_), end = first + static_cast<ptrdiff_t>(bytes_);
    const bool inside = output || std::equal(first, end, sent_.begin() + static_cast<ptrdiff_t>(first_));
    const auto untouched = [](unsigned char byte) { return byte == kBeside; };
    if (output) {
        std::copy(first, end, host_);
    }
    return inside && std::all_of(now.begin(), first, untouched) && std::all_of(end, now.end(), untouched);
}

deformkit_status call_in_place(const std::function<deformkit_status(const std::vector<DLTensor *> &)> &call,
                               const std::vector<DLTensor *> &arguments, const std::vector<bool> &outputs) {
    if (place == Place::kHost) {
        return call(arguments);
    }
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<DLTensor *> on_device;
    for (const DLTensor *argument : arguments) {
        copies.push_back(argument == nullptr ? nullptr : std::make_unique<DeviceCopy>(*argument));
        on_device.push_back(argument == nullptr ? nullptr : copies.back()->dl());
    }
    const Device &device = *device_at(place);
    EXPECT_EQ(deformkit_set_stream(device.dl(), device.stream()), DEFORMKIT_OK);
    const deformkit_status status = call(on_device);
    for (size_t i = 0; i < copies.size(); i++) {
        if (copies[i] != nullptr) {
            EXPECT_TRUE(copies[i]->fetch(outputs[i])) << "argument " << i << ": something was written that is no output's";
        }
    }
    return status;
}

}  // namespace deformkit::testing
