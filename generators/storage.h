// Types in memory and in arithmetic: what is read is widened, what is written is rounded once.
#pragma once

#include <Halide.h>

namespace deformkit {

/// `result`, in the type of arithmetic, rounded to the nearest value of `storage`, ties to even. What is too large becomes an
/// infinity, and a NaN stays a NaN.
Halide::Expr round_to_storage(Halide::Type storage, const Halide::Expr &result);

}  // namespace deformkit
