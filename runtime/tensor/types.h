// The storage types of variants.cmake.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>

namespace deformkit {

struct StorageType {
    const char *name;       ///< bf16
    const char *long_name;  ///< bfloat16
    DLDataType dtype;
    const char *arithmetic;  ///< name of the type that is computed in
};

inline constexpr StorageType kStorageTypes[] = {
#define DEFORMKIT_TYPE(name, enumerator, long_name, dlpack_code, bits, arithmetic, exponent, mantissa) \
    {#name, #long_name, {dlpack_code, bits, 1}, #arithmetic},
#include <deformkit/types.inc>
#undef DEFORMKIT_TYPE
};

/// What else rows may be for: locations, which nothing is computed in.
inline constexpr StorageType kIntegerTypes[] = {
#define DEFORMKIT_INTEGER(name, long_name, bits) {#name, #long_name, {kDLInt, bits, 1}, #name},
#include "deformkit_integers.inc"
#undef DEFORMKIT_INTEGER
};

/// nullptr for what is none.
const StorageType *storage_type(DLDataType dtype);
/// The same with integers.
const StorageType *row_type(DLDataType dtype);

/// The type that arithmetic on `storage` is done in.
DLDataType arithmetic_type(DLDataType storage);

}  // namespace deformkit
