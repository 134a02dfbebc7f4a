// Runs a kernel.
#pragma once

#include <functional>

#include "runtime/dispatch/variant.h"

namespace deformkit {

/// Buffers as halide_buffer_t *, scalars as pointers to them, in the kernel's order.
void run_kernel(const Variant &variant, void **args);

/// Something that returns 0 or one of Halide's errors, which is thrown.
void run_on(const Variant &variant, const std::function<int()> &call);

}  // namespace deformkit
