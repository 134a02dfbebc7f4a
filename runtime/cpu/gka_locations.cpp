#include "runtime/cpu/gka_locations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/tensor/runs.h"

namespace deformkit {

namespace {

// As in generators/gka.h.
enum Kind : int32_t { kFloat = 0, kInt = 1, kMarkedInt = 2 };

constexpr DLDataType kBits = {kDLInt, 32, 1};
constexpr int32_t kNowhere = std::numeric_limits<int32_t>::min();

int32_t to_cell(double location) {
    if (!std::isfinite(location)) {
        return kNowhere;
    }
    constexpr double kMost = std::numeric_limits<int32_t>::max();
    return static_cast<int32_t>(std::clamp(location, -kMost, kMost));
}

int32_t to_cell(int64_t location) {
    return static_cast<int32_t>(std::clamp<int64_t>(location, kNowhere + 1, std::numeric_limits<int32_t>::max()));
}

int32_t to_cell(int8_t location) {
    return location;
}

int32_t to_cell(int16_t location) {
    return location;
}

float as_float(uint32_t bits) {
    float number;
    std::memcpy(&number, &bits, sizeof(number));
    return number;
}

struct Bf16 {
    uint16_t bits;
};

int32_t to_cell(Bf16 location) {
    return to_cell(as_float(static_cast<uint32_t>(location.bits) << 16));
}

struct F16 {
    uint16_t bits;
};

int32_t to_cell(F16 location) {
    if ((location.bits & 0x7c00) == 0x7c00) {
        return kNowhere;
    }
    // Exponents are biased by 15 instead of 127.
    const float magnitude = as_float(static_cast<uint32_t>(location.bits & 0x7fff) << 13) * 0x1p112f;
    return static_cast<int32_t>(location.bits >> 15 ? -magnitude : magnitude);
}

template <typename T>
void convert_run(const unsigned char *from, int64_t step, unsigned char *to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        T location;
        std::memcpy(&location, from + i * step * static_cast<int64_t>(sizeof(T)), sizeof(T));
        const int32_t cell = to_cell(location);
        std::memcpy(to + i * 4, &cell, 4);
    }
}

using RunConverter = decltype(&convert_run<double>);

RunConverter converter(DLDataType type) {
    if (type.code == kDLInt) {
        return type.bits == 8 ? convert_run<int8_t> : type.bits == 16 ? convert_run<int16_t> : convert_run<int64_t>;
    }
    return type.code == kDLBfloat ? convert_run<Bf16> : type.bits == 64 ? convert_run<double> : convert_run<F16>;
}

}  // namespace

StagedCellLocations::StagedCellLocations(CallMemory &memory, const Tensor &locations, const Variant &variant) {
    Tensor bits = locations;
    bits.dtype = kBits;
    kind_ = locations.dtype.bits != 32 ? kMarkedInt : locations.dtype.code == kDLInt ? kInt : kFloat;
    bits_ = kind_ == kMarkedInt ? Staged(memory, dense_like(bits, nullptr)) : stage_samples(memory, bits, variant);
}

Tensor StagedCellLocations::load(const Tensor &locations) const {
    Tensor bits = locations;
    bits.dtype = kBits;
    if (kind_ != kMarkedInt) {
        return join_samples(bits_.load(bits));
    }
    const Tensor result = bits_.of(bits);
    if (!locations.empty()) {
        const Tensor from = with_long_runs(locations, kRunBytes);
        Tensor to = from;
        to.dtype = kBits;
        to = dense_like(to, result.data);
        const int last = from.ndim - 1;
        const RunConverter convert = converter(from.dtype);
        for_each_run(from, to, [&](int64_t from_offset, int64_t to_offset, int64_t count) {
            for (int64_t i = 0; i < count; i++) {
                convert(from.data + (from_offset + i * from.strides[last - 1]) * from.element_bytes(), from.strides[last],
                        to.data + (to_offset + i * to.strides[last - 1]) * to.element_bytes(), from.shape[last]);
            }
        });
    }
    return join_samples(result);
}

}  // namespace deformkit
