// Runs a kernel, here or on its device.
#pragma once

#include <initializer_list>

#include "runtime/dispatch/variant.h"

namespace deformkit {

/// Buffers as halide_buffer_t *, scalars as pointers to them, in the kernel's order; `buffers` lists the buffers, output last.
/// A GPU's copies of them are made and dropped here.
void run_kernel(const Variant &variant, void **args, std::initializer_list<halide_buffer_t *> buffers);

}  // namespace deformkit
