// Arithmetic on sizes that callers claim: none of it overflows.
//
// view() accepts no tensor with elements that claims more than kMostElements of them or reaches over more than kMostBytes, so
// that products of the extents of one tensor, and offsets within it, are plain arithmetic. What joins extents of several
// tensors, of an empty one, or adds padding, goes through here.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace deformkit {

/// More than any machine has memory for, with room for padding, bytes of an element and factors that knobs bring.
constexpr int64_t kMostElements = int64_t{1} << 48;
/// More than processors address.
constexpr int64_t kMostBytes = int64_t{1} << 57;
/// What kernels count and address an axis by.
constexpr int64_t kMostOfAxis = std::numeric_limits<int32_t>::max();

/// Of numbers that are not negative; what does not fit is the largest there is. 0 if any is.
inline int64_t product(std::initializer_list<int64_t> factors) {
    int64_t result = 1;
    bool fits = true;
    for (const int64_t factor : factors) {
        if (factor == 0) {
            return 0;
        }
        fits &= !__builtin_mul_overflow(result, factor, &result);
    }
    return fits ? result : std::numeric_limits<int64_t>::max();
}

/// The same of any number.
inline int64_t product(const int64_t *factors, int count) {
    int64_t result = 1;
    for (int i = 0; i < count; i++) {
        result = factors[i] == 0 ? 0 : product({result, factors[i]});
    }
    return result;
}

inline int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

inline int64_t round_up(int64_t a, int64_t b) {
    return product({divide_up(a, b), b});
}

}  // namespace deformkit
