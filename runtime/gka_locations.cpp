#include "gka_locations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "parallel.h"

namespace deformkit {

namespace {

// As in generators/gka.h.
enum Kind : int32_t { kFloat = 0, kInt = 1, kMarkedInt = 2 };

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::min();
constexpr int64_t kLocationsPerTask = 16384;

int32_t saturate(int64_t cell) {
    return static_cast<int32_t>(std::clamp<int64_t>(cell, kNowhere + 1, std::numeric_limits<int32_t>::max()));
}

int32_t from_real(double cell) {
    if (!std::isfinite(cell)) {
        return kNowhere;
    }
    constexpr double kMost = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::clamp(cell, -kMost, kMost));
}

template <typename T>
T load(const unsigned char *from) {
    T number;
    std::memcpy(&number, from, sizeof(number));
    return number;
}

float from_bf16(uint16_t bits) {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float number;
    std::memcpy(&number, &wide, sizeof(number));
    return number;
}

double from_f16(uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double magnitude = exponent == 31  ? std::numeric_limits<double>::quiet_NaN()  // or infinite: nowhere as well
                             : exponent == 0 ? std::ldexp(fraction, -24)
                                             : std::ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

int32_t convert(const unsigned char *from, DLDataType dtype) {
    if (dtype.code == kDLInt) {
        switch (dtype.bits) {
            case 8:
                return load<int8_t>(from);
            case 16:
                return load<int16_t>(from);
            default:
                return saturate(load<int64_t>(from));
        }
    }
    if (dtype.code == kDLBfloat) {
        return from_real(from_bf16(load<uint16_t>(from)));
    }
    return from_real(dtype.bits == 64 ? load<double>(from) : from_f16(load<uint16_t>(from)));
}

}  // namespace

CellLocations prepare_cell_locations(const Tensor &locations) {
    const DLDataType as_bits = {kDLInt, 32, 1};
    CellLocations result;
    if (locations.dtype.bits == 32) {
        result.kind = locations.dtype.code == kDLInt ? kInt : kFloat;
        result.bits.tensor = locations;
        result.bits.tensor.dtype = as_bits;
        return result;
    }
    Tensor like = locations;
    like.dtype = as_bits;
    result.kind = kMarkedInt;
    result.bits = allocate_like(like);
    const int64_t count = locations.elements(), tasks = (count + kLocationsPerTask - 1) / kLocationsPerTask;
    parallel_for(static_cast<int>(tasks), [&](int task) {
        const int64_t end = std::min(count, (task + 1) * kLocationsPerTask);
        for (int64_t i = task * kLocationsPerTask; i < end; i++) {
            int64_t rest = i, offset = 0;
            for (int axis = locations.ndim - 1; axis >= 0; axis--) {
                offset += rest % locations.shape[axis] * locations.strides[axis];
                rest /= locations.shape[axis];
            }
            const int32_t cell = convert(locations.data + offset * locations.element_bytes(), locations.dtype);
            std::memcpy(result.bits.tensor.data + i * 4, &cell, 4);
        }
    });
    return result;
}

}  // namespace deformkit
