#include "runtime/tensor/types.h"

#include <cstddef>
#include <cstring>

namespace deformkit {

namespace {

template <size_t N>
const StorageType *find(const StorageType (&types)[N], DLDataType dtype) {
    for (const StorageType &type : types) {
        if (type.dtype.code == dtype.code && type.dtype.bits == dtype.bits && dtype.lanes == 1) {
            return &type;
        }
    }
    return nullptr;
}

}  // namespace

const StorageType *storage_type(DLDataType dtype) {
    return find(kStorageTypes, dtype);
}

const StorageType *row_type(DLDataType dtype) {
    return dtype.code == kDLInt ? find(kIntegerTypes, dtype) : storage_type(dtype);
}

DLDataType arithmetic_type(DLDataType storage) {
    const StorageType *type = storage_type(storage);
    for (const StorageType &other : kStorageTypes) {
        if (type != nullptr && std::strcmp(other.name, type->arithmetic) == 0) {
            return other.dtype;
        }
    }
    return storage;
}

}  // namespace deformkit
