// The storage types of tensors, and rounding to them, in software: what the library's conversions are held against.
#pragma once

#include <dlpack/dlpack.h>

#include <cstddef>
#include <string>

namespace deformkit::testing {

enum class Type {
#define DEFORMKIT_TYPE(name, enumerator, ...) enumerator,
#include <deformkit/types.inc>
#undef DEFORMKIT_TYPE
};

constexpr Type kAllTypes[] = {
#define DEFORMKIT_TYPE(name, enumerator, ...) Type::enumerator,
#include <deformkit/types.inc>
#undef DEFORMKIT_TYPE
};

/// By its name in variants.cmake, such as bf16; and back.
Type type_named(const std::string &name);
std::string name_of(Type type);
DLDataType dtype_of(Type type);
/// Throws std::invalid_argument for what is no such type.
Type type_of(DLDataType dtype);
size_t size_of(Type type);

/// `number` rounded to the type, ties to even; too large: infinite; NaN stays NaN.
double nearest(Type type, double number);
/// The type's next number above (direction > 0) or below; `number` is one of the type, and finite.
double neighbour(Type type, double number, int direction);
double largest(Type type);

/// `number`, rounded to the type, into memory of size_of(type) bytes of any alignment; and back, exactly.
void encode(Type type, double number, void *to);
double decode(Type type, const void *from);

/// What arithmetic is done in: half a unit in the last place, relative.
double rounding_of_arithmetic(Type type);
/// The smallest normal number of that arithmetic.
double underflow_of_arithmetic(Type type);

}  // namespace deformkit::testing
