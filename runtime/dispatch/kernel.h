// Runs a kernel, here or on a device.
#pragma once

#include "runtime/dispatch/variant.h"

namespace deformkit {

/// Buffers as halide_buffer_t *, scalars as pointers to them, in the kernel's order; a GPU's has its Queue in front.
void run_kernel(const Variant &variant, void **args);

}  // namespace deformkit
