// MSDA forward through the vendor's interface.
#pragma once

#include <aclnnop/aclnn_multi_scale_deformable_attn_function.h>

#include <algorithm>

#include "acl.h"
#include "tests/msda_case.h"

namespace deformkit::testing {

/// One cell of ones whose map's size is the bits of 1.0f, looked at from (0, 0) by 32 queries: what the published examples of
/// the operators set up.
inline MsdaCase one_cell_with_float_bits_for_a_size(Pass pass) {
    MsdaCase c({"", 1, 32, 1, 8, {{1, 1}}, 1, Locations::kWide}, Type::kF32, pass);
    std::fill(c.in.value.begin(), c.in.value.end(), 1);
    std::fill(c.in.locations.begin(), c.in.locations.end(), 0);
    std::fill(c.in.weights.begin(), c.in.weights.end(), 1);
    c.in.shapes = {0x3f800000, 0x3f800000};
    return c;
}

struct AclForward {
    AclTensor value, shapes, starts, locations, weights, output;

    explicit AclForward(const ProblemTensors &t)
        : value(*t.arguments[0]),
          shapes(*t.arguments[1]),
          starts(*t.arguments[2]),
          locations(*t.arguments[3]),
          weights(*t.arguments[4]),
          output(*t.arguments[5]) {}

    Prepared prepare() const {
        Prepared p;
        p.status = aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(value, shapes, starts, locations, weights, output,
                                                                         &p.workspace_bytes, &p.executor);
        return p;
    }
};

}  // namespace deformkit::testing
