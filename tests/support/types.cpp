#include "tests/support/types.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace deformkit::testing {

namespace {

constexpr struct {
    const char *name;
    Type type;
    int exponent_bits, mantissa_bits;
    DLDataType dtype;
    const char *arithmetic;
} kTypes[] = {
#define DEFORMKIT_TYPE(name, enumerator, long_name, dlpack_code, bits, arithmetic, exponent, mantissa) \
    {#name, Type::enumerator, exponent, mantissa, {dlpack_code, bits, 1}, #arithmetic},
#include <deformkit/types.inc>
#undef DEFORMKIT_TYPE
};

const auto &row_of(Type type) {
    return kTypes[static_cast<int>(type)];
}

template <typename To, typename From>
To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof(to));
    return to;
}

constexpr int kMantissaBits = 52;  // of a double
constexpr uint64_t kMantissa = (uint64_t{1} << kMantissaBits) - 1;

/// 2 to this power, where a double is normal. Bits, since std::ldexp takes most of a test's time.
double power_of_two(int exponent) {
    return bits_as<double>(static_cast<uint64_t>(exponent + 1023) << kMantissaBits);
}

/// Exponent of the type's smallest normal number.
int lowest_exponent(Type type) {
    return 2 - (1 << (row_of(type).exponent_bits - 1));
}

/// Of the 16 bit types.
uint16_t encode16(Type type, double number) {
    const int mantissa_bits = row_of(type).mantissa_bits, dropped = kMantissaBits - mantissa_bits;
    const auto infinity = static_cast<uint16_t>(((1 << row_of(type).exponent_bits) - 1) << mantissa_bits);
    const uint16_t sign = std::signbit(number) ? 0x8000 : 0;
    if (std::isnan(number)) {
        const uint64_t payload = (bits_as<uint64_t>(number) & kMantissa) >> dropped;
        return static_cast<uint16_t>(sign | infinity | std::max<uint64_t>(payload, 1));
    }
    const double rounded = std::fabs(nearest(type, number));
    if (std::isinf(rounded)) {
        return sign | infinity;
    }
    const int lowest = lowest_exponent(type);
    if (rounded < power_of_two(lowest)) {
        return static_cast<uint16_t>(sign | static_cast<int>(rounded * power_of_two(mantissa_bits - lowest)));
    }
    // The exponents differ in bias, the mantissas in length.
    const uint64_t bits = bits_as<uint64_t>(rounded) - (static_cast<uint64_t>(lowest + 1022) << kMantissaBits);
    return static_cast<uint16_t>(sign | bits >> dropped);
}

double decode16(Type type, uint16_t bits) {
    const int mantissa_bits = row_of(type).mantissa_bits, dropped = kMantissaBits - mantissa_bits;
    const uint64_t sign = static_cast<uint64_t>(bits >> 15) << 63, magnitude = bits & 0x7fff;
    const uint64_t exponent = magnitude >> mantissa_bits;
    const int lowest = lowest_exponent(type);
    if (exponent == (uint64_t{1} << row_of(type).exponent_bits) - 1) {
        return bits_as<double>(sign | uint64_t{0x7ff} << kMantissaBits | (magnitude << dropped & kMantissa));
    }
    if (exponent == 0) {
        return static_cast<double>(magnitude) * power_of_two(lowest - mantissa_bits) * (sign ? -1 : 1);
    }
    return bits_as<double>(sign | ((magnitude << dropped) + (static_cast<uint64_t>(lowest + 1022) << kMantissaBits)));
}

}  // namespace

Type type_named(const std::string &name) {
    for (const auto &row : kTypes) {
        if (row.name == name) {
            return row.type;
        }
    }
    throw std::invalid_argument("no type " + name);
}

std::string name_of(Type type) {
    return row_of(type).name;
}

DLDataType dtype_of(Type type) {
    return row_of(type).dtype;
}

Type type_of(DLDataType dtype) {
    for (const auto &row : kTypes) {
        if (row.dtype.code == dtype.code && row.dtype.bits == dtype.bits && dtype.lanes == 1) {
            return row.type;
        }
    }
    throw std::invalid_argument("no such type");
}

size_t size_of(Type type) {
    return row_of(type).dtype.bits / 8;
}

double largest(Type type) {
    return (2 - power_of_two(-row_of(type).mantissa_bits)) * power_of_two(1 - lowest_exponent(type));
}

double nearest(Type type, double number) {
    if (type == Type::kF64 || !std::isfinite(number)) {
        return number;
    }
    if (type == Type::kF32) {
        return static_cast<float>(number);
    }
    if (std::fabs(number) < power_of_two(lowest_exponent(type))) {
        // So large that its unit is the type's smallest number: the addition rounds.
        const double large = 1.5 * power_of_two(kMantissaBits + lowest_exponent(type) - row_of(type).mantissa_bits);
        return std::copysign(std::fabs(number) + large - large, number);
    }
    const int dropped = kMantissaBits - row_of(type).mantissa_bits;
    uint64_t bits = bits_as<uint64_t>(number);
    bits += (uint64_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1);
    const double rounded = bits_as<double>(bits >> dropped << dropped);
    return std::fabs(rounded) > largest(type) ? std::copysign(std::numeric_limits<double>::infinity(), number) : rounded;
}

double neighbour(Type type, double number, int direction) {
    if (type == Type::kF64) {
        return std::nextafter(number, direction * std::numeric_limits<double>::infinity());
    }
    const int lowest = lowest_exponent(type);
    int exponent = number == 0 ? lowest : std::max(std::ilogb(number), lowest);
    // Toward zero from a power of two, the numbers are half as far apart.
    if (number * direction < 0 && std::fabs(number) == std::ldexp(1, exponent) && exponent > lowest) {
        exponent--;
    }
    return nearest(type, number + direction * std::ldexp(1, exponent - row_of(type).mantissa_bits));
}

void encode(Type type, double number, void *to) {
    if (type == Type::kF64) {
        std::memcpy(to, &number, sizeof(number));
    } else if (type == Type::kF32) {
        const auto f = static_cast<float>(number);
        std::memcpy(to, &f, sizeof(f));
    } else {
        const uint16_t bits = encode16(type, number);
        std::memcpy(to, &bits, sizeof(bits));
    }
}

double decode(Type type, const void *from) {
    if (type == Type::kF64) {
        double number;
        std::memcpy(&number, from, sizeof(number));
        return number;
    }
    if (type == Type::kF32) {
        float number;
        std::memcpy(&number, from, sizeof(number));
        return number;
    }
    uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return decode16(type, bits);
}

double rounding_of_arithmetic(Type type) {
    return power_of_two(-row_of(type_named(row_of(type).arithmetic)).mantissa_bits - 1);
}

double underflow_of_arithmetic(Type type) {
    return power_of_two(lowest_exponent(type_named(row_of(type).arithmetic)));
}

}  // namespace deformkit::testing
