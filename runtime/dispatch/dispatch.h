// From an operator, pass and type to the compiled kernel that this machine runs best.
#pragma once

#include "deformkit/deformkit.h"
#include "runtime/dispatch/variant.h"

namespace deformkit {

/// The first row that serves `operation` (operator_pass) on `dtype` in such a device's memory and that this machine supports, or
/// the forced one. A call asks once, and for its other kernels names the target of the first: another may be forced at any time.
const Variant &choose_variant(const char *operation, DLDataType dtype, const Target *target = nullptr,
                              DLDeviceType device = kDLCPU);

/// Where calls on tensors in host memory are forced to run, if that is a GPU, or nullptr.
const Target *forced_gpu();

/// `operation` for the same type and target, or nullptr where there is no such kernel.
const Variant *companion(const Variant &variant, const char *operation);

/// The same for a kernel that runs in place of `variant` where that `pays`, else nullptr: `variant` runs itself.
const Variant *in_place_of(const Variant &variant, const char *operation, bool pays);

/// For tests: a row by its name, which calls must run on its target, whether or not that pays; nullptr: free choice.
void force_kernel(const char *name);

/// The kernel that ran, for deformkit_last_variant(); "" where none was needed.
void set_last_variant(const char *name);

}  // namespace deformkit
