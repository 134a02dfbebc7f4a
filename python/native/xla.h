// The operators as functions that XLA calls, for JAX.
#pragma once

#include <vector>

#include "python/native/xla_ffi.h"

namespace deformkit::python {

struct XlaHandler {
    const char *name;
    xla::Error *(*function)(xla::CallFrame *);
};

/// One for each of the C functions, by its name without "deformkit_". Arguments and results are its tensors; results that are not
/// wanted are left out, and those that are, are bits of the attribute `wanted` (an int32), the first result's being the lowest; all
/// of them without it. And "refuse", for devices that the library has no kernels for.
std::vector<XlaHandler> xla_handlers();

}  // namespace deformkit::python
