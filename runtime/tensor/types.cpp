#include "runtime/tensor/types.h"

#include <cstring>

namespace deformkit {

const StorageType *storage_type(DLDataType dtype) {
    for (const StorageType &type : kStorageTypes) {
        if (type.dtype.code == dtype.code && type.dtype.bits == dtype.bits && dtype.lanes == 1) {
            return &type;
        }
    }
    return nullptr;
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
