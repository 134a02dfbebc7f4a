// Types without a device.

#include <cmath>
#include <cstring>

#include "acl/acl_base.h"

size_t aclDataTypeSize(aclDataType dataType) {
    switch (dataType) {
        case ACL_INT8:
        case ACL_UINT8:
        case ACL_BOOL:
            return 1;
        case ACL_FLOAT16:
        case ACL_BF16:
        case ACL_INT16:
        case ACL_UINT16:
            return 2;
        case ACL_FLOAT:
        case ACL_INT32:
        case ACL_UINT32:
        case ACL_COMPLEX32:
            return 4;
        case ACL_DOUBLE:
        case ACL_INT64:
        case ACL_UINT64:
        case ACL_COMPLEX64:
            return 8;
        case ACL_COMPLEX128:
            return 16;
        default:
            return 0;
    }
}

float aclFloat16ToFloat(aclFloat16 value) {
    const int exponent = value >> 10 & 0x1f, fraction = value & 0x3ff;
    float magnitude;
    if (exponent == 0x1f) {
        magnitude = fraction == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        magnitude = std::ldexp(static_cast<float>(fraction), -24);
    } else {
        magnitude = std::ldexp(static_cast<float>(fraction + 0x400), exponent - 25);
    }
    return value & 0x8000 ? -magnitude : magnitude;
}

aclFloat16 aclFloatToFloat16(float value) {
    const auto sign = static_cast<aclFloat16>(std::signbit(value) ? 0x8000 : 0);
    const float magnitude = std::fabs(value);
    if (std::isnan(value)) {
        return sign | 0x7e00;
    }
    if (magnitude >= 65520.0f) {  // halfway to what would be next
        return sign | 0x7c00;
    }
    // In units of the last place: 2^-24 below the smallest normal number, else what the exponent says.
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const int unit = magnitude < 0x1p-14f ? -24 : exponent - 11;
    const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, -unit)));
    // A fraction that rounds up to the next power of two carries into the exponent by itself.
    return static_cast<aclFloat16>(sign | (units + ((unit + 24) << 10)));
}
