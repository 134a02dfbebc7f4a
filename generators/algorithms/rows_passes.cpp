#include "generators/algorithms/rows_passes.h"

#include "generators/shared/sampling.h"

namespace deformkit {

using namespace Halide;
using Halide::Internal::make_zero;

RowsMagnitude::RowsMagnitude(const Func &input, const Expr &channels, const Expr &heads, const Expr &queries) {
    const Type type = input.type();
    elements = RDom(0, channels, 0, heads, 0, queries, "elements");
    largest() = make_zero(UInt(type.bits()));
    largest() = max(largest(), magnitude_bits(input(elements.x, elements.y, elements.z)));
    result = largest();
}

}  // namespace deformkit
