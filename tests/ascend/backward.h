// MSDA backward through the vendor's interface.
#pragma once

#include <aclnnop/aclnn_multi_scale_deformable_attention_grad.h>

#include "acl.h"
#include "tests/msda_case.h"

namespace deformkit::testing {

/// Where the gradients lie, in addition to the layout of the forward, whose output here is its gradient.
struct GradientLayout {
    Layout value, locations, weights;
};

/// The tensors of a backward call in guarded memory. grad_output holds numbers that tell its elements apart.
struct BackwardTensors {
    MsdaTensors forward;  // its output is grad_output
    GuardedTensor grad_value, grad_locations, grad_weights;

    BackwardTensors(const MsdaCase &c, const MsdaLayout &layout = {}, const GradientLayout &gradients = {})
        : forward(c, layout),
          grad_value(dtype_of(c.type), c.value_shape(), gradients.value),
          grad_locations(dtype_of(c.type), c.locations_shape(), gradients.locations),
          grad_weights(dtype_of(c.type), c.weights_shape(), gradients.weights) {
        std::vector<double> grad_output(c.B * c.Q * c.M * c.D);
        for (size_t i = 0; i < grad_output.size(); i++) {
            grad_output[i] = 0.25 + static_cast<double>(i % 37) / 16 - static_cast<double>(i % 11) / 4;
        }
        forward.output.store_numbers(grad_output);
        forward.output.make_read_only();
    }

    deformkit_status call() {
        return deformkit_msda_backward(forward.value.dl(), forward.shapes.dl(), forward.starts.dl(), forward.locations.dl(),
                                       forward.weights.dl(), forward.output.dl(), grad_value.dl(), grad_locations.dl(),
                                       grad_weights.dl());
    }

    /// All gradients one after the other. Fails the test if not all of them has been written, or something else has.
    std::vector<double> gradients() const {
        std::vector<double> all;
        for (const GuardedTensor *gradient : {&grad_value, &grad_locations, &grad_weights}) {
            EXPECT_EQ(gradient->elements_in_poison(), 0);
            EXPECT_TRUE(gradient->surroundings_intact());
            const std::vector<double> values = gradient->load_numbers();
            all.insert(all.end(), values.begin(), values.end());
        }
        return all;
    }
};

struct AclBackward {
    AclTensor value, shapes, starts, locations, weights, grad_output, grad_value, grad_locations, grad_weights;

    explicit AclBackward(BackwardTensors &t)
        : value(*t.forward.value.dl()),
          shapes(*t.forward.shapes.dl()),
          starts(*t.forward.starts.dl()),
          locations(*t.forward.locations.dl()),
          weights(*t.forward.weights.dl()),
          grad_output(*t.forward.output.dl()),
          grad_value(*t.grad_value.dl()),
          grad_locations(*t.grad_locations.dl()),
          grad_weights(*t.grad_weights.dl()) {}

    Prepared prepare() const {
        Prepared p;
        p.status = aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(value, shapes, starts, locations, weights,
                                                                          grad_output, grad_value, grad_locations, grad_weights,
                                                                          &p.workspace_bytes, &p.executor);
        return p;
    }
};

}  // namespace deformkit::testing
