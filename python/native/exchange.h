// DLPack 1.3's table of C functions, which an array type may offer as `__dlpack_c_exchange_api__`: the header that Debian ships
// is older. Only the beginning that is used here; the layout is fixed by DLPack's major version 1.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>

namespace deformkit::python {

struct ExchangeApi {
    uint32_t major, minor;
    const ExchangeApi *previous;
    int (*allocate)(DLTensor *prototype, void **out, void *error_context,
                    void (*set_error)(void *, const char *, const char *));
    int (*managed_from_object)(void *object, void **out);
    int (*managed_to_object)(void *managed, void **object);
    /// Fills `out` with a view that lives as long as `object` does and is not resized. -1 with a Python error set on failure.
    int (*view)(void *object, DLTensor *out);
};

constexpr const char *kExchangeApiCapsule = "dlpack_exchange_api";

}  // namespace deformkit::python
