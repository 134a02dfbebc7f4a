#include "storage.h"

#include "sampling.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_const;

Expr round_to_storage(Type storage, const Expr &result) {
    if (!storage.is_bfloat()) {
        return cast(storage, result);
    }
    // Halide's own conversion adds to the bits of a NaN as to any other, and may arrive at infinity or zero.
    const Type u32 = UInt(32);
    const Expr bits = reinterpret(u32, result);
    const Expr rounded = bits + (make_const(u32, 0x7fff) + ((bits >> 16) & 1));
    const Expr quiet = bits | make_const(u32, 0x400000);
    return reinterpret(storage, cast<uint16_t>(select(is_nan_bits(result), quiet, rounded) >> 16));
}

}  // namespace deformkit
