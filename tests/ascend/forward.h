// MSDA forward through the vendor's interface.
#pragma once

#include <aclnnop/aclnn_multi_scale_deformable_attn_function.h>

#include <algorithm>

#include "acl.h"
#include "tests/msda_case.h"

namespace deformkit::testing {

/// One cell of ones whose map's size is the bits of 1.0f, looked at from (0, 0) by 32 queries: what the published examples of
/// the operators set up.
inline MsdaCase one_cell_with_float_bits_for_a_size() {
    MsdaCase c = make_case({"", 1, 32, 1, 8, {{1, 1}}, 1, Locations::kWide});
    std::fill(c.value.begin(), c.value.end(), 1);
    std::fill(c.locations.begin(), c.locations.end(), 0);
    std::fill(c.weights.begin(), c.weights.end(), 1);
    c.shapes = {0x3f800000, 0x3f800000};
    return c;
}

struct AclForward {
    AclTensor value, shapes, starts, locations, weights, output;

    explicit AclForward(MsdaTensors &t)
        : value(*t.value.dl()),
          shapes(*t.shapes.dl()),
          starts(*t.starts.dl()),
          locations(*t.locations.dl()),
          weights(*t.weights.dl()),
          output(*t.output.dl()) {}

    Prepared prepare() const {
        Prepared p;
        p.status = aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(value, shapes, starts, locations, weights, output,
                                                                         &p.workspace_bytes, &p.executor);
        return p;
    }
};

}  // namespace deformkit::testing
