// MSDA forward through the vendor's interface.
#pragma once

#include <aclnnop/aclnn_multi_scale_deformable_attn_function.h>

#include "acl.h"
#include "msda_case.h"

namespace deformkit::testing {

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
