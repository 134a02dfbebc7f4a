// Arithmetic on sizes that callers claim: none of it overflows.
//
// view() accepts no tensor with elements that claims more than kMostElements of them or reaches over more than kMostBytes, so
// that products of the extents of one tensor, and offsets within it, are plain arithmetic. What joins extents of several
// tensors, of an empty one, or adds padding, goes through here.
#pragma once

#include <cstddef>
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
inline int64_t product(const int64_t *factors, size_t count) {
    int64_t result = 1;
    bool fits = true, zero = false;
    for (size_t i = 0; i < count; i++) {
        zero |= factors[i] == 0;
        fits &= !__builtin_mul_overflow(result, factors[i], &result);
    }
    return zero ? 0 : fits ? result : std::numeric_limits<int64_t>::max();
}

inline int64_t product(std::initializer_list<int64_t> factors) {
    return product(factors.begin(), factors.size());
}

inline int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

inline int64_t round_up(int64_t a, int64_t b) {
    return product({divide_up(a, b), b});
}

}  // namespace deformkit
