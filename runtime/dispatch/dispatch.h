// From an operator, pass and type to the compiled kernel that this machine runs best.
#pragma once

#include <HalideRuntime.h>

#include <initializer_list>

#include "deformkit/deformkit.h"

namespace deformkit {

/// One row of variants.cmake.
struct Variant {
    const char *name;       ///< msda_forward_f32_avx512
    const char *operation;  ///< msda_forward
    const char *type;       ///< f32
    const char *target;     ///< avx512
    bool gpu;
    bool (*supported)();  ///< by this machine's CPU; whether a GPU answers is asked separately
    int (*run)(void **args);
};

/// The first row that serves `operation` (operator_pass) on `dtype` and that this machine supports, or the forced one.
const Variant &choose_variant(const char *operation, DLDataType dtype);

/// The companion kernel of this name for the same type and target, or nullptr where there is none.
const Variant *companion(const Variant &variant, const char *operation);

/// Runs a kernel: buffers as halide_buffer_t *, scalars as pointers to them, in the kernel's order; `buffers` lists the
/// buffers, output last. A GPU's copies of them are made and dropped here.
void run_kernel(const Variant &variant, void **args, std::initializer_list<halide_buffer_t *> buffers);

/// Remembered for deformkit_last_variant().
void set_last_variant(const char *name);

}  // namespace deformkit
