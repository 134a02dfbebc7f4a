// MSDA backward through the vendor's interface.
#pragma once

#include <aclnnop/aclnn_multi_scale_deformable_attention_grad.h>

#include "acl.h"
#include "tests/msda_case.h"

namespace deformkit::testing {

struct AclBackward {
    AclTensor value, shapes, starts, locations, weights, grad_output, grad_value, grad_locations, grad_weights;

    explicit AclBackward(const ProblemTensors &t)
        : value(*t.arguments[0]),
          shapes(*t.arguments[1]),
          starts(*t.arguments[2]),
          locations(*t.arguments[3]),
          weights(*t.arguments[4]),
          grad_output(*t.arguments[5]),
          grad_value(*t.arguments[6]),
          grad_locations(*t.arguments[7]),
          grad_weights(*t.arguments[8]) {}

    Prepared prepare() const {
        Prepared p;
        p.status = aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(value, shapes, starts, locations, weights,
                                                                          grad_output, grad_value, grad_locations, grad_weights,
                                                                          &p.workspace_bytes, &p.executor);
        return p;
    }
};

}  // namespace deformkit::testing
