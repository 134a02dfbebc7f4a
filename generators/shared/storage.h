// Types in memory and in arithmetic: what is read is widened, what is written is rounded once.
#pragma once

#include <Halide.h>

namespace deformkit {

/// `stored`, of 16 bits, as float32, exactly; a float of 32 or 64 bits as it is.
Halide::Expr widen(const Halide::Expr &stored, const Halide::Target &target);

/// What reads `stored` in the type of arithmetic, for algorithms that know of no other.
Halide::Func widened(const Halide::Func &stored, const Halide::Target &target);

/// `result`, in the type of arithmetic, rounded to the nearest value of `storage`, ties to even. What is too large becomes an
/// infinity, and a NaN stays a NaN.
Halide::Expr round_to_storage(Halide::Type storage, const Halide::Expr &result, const Halide::Target &target);

}  // namespace deformkit
