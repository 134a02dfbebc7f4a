#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"
#include "runtime/interface/used_keys.h"

namespace deformkit {

GkaForwardCall check_gka_forward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                 const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                 const DLTensor *output) {
    GkaForwardCall call;
    call.inputs =
        view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, LocationUnit::kCell);
    const MsdaInputs &a = call.inputs;
    call.output = view_output("output", output, a);
    require_no_overlap(call.output,
                       {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights});
    return call;
}

GkaBackwardCall check_gka_backward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                   const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                   const DLTensor *grad_output, const DLTensor *grad_value,
                                   const DLTensor *grad_attention_weights) {
    GkaBackwardCall call;
    call.inputs =
        view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, LocationUnit::kCell);
    const MsdaInputs &a = call.inputs;
    call.grad_output = view_output("grad_output", grad_output, a);
    call.grad_value = view_gradient("grad_value", grad_value, a.value);
    call.grad_weights = view_gradient("grad_attention_weights", grad_attention_weights, a.attention_weights);
    require_no_overlap(
        {&call.grad_value, &call.grad_weights},
        {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights, &call.grad_output});
    return call;
}

}  // namespace deformkit

deformkit_status deformkit_geometric_kernel_attention_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                              const DLTensor *level_start_index,
                                                              const DLTensor *sampling_locations,
                                                              const DLTensor *attention_weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        run_on_used_keys(
            check_gka_forward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output));
    });
}

deformkit_status deformkit_geometric_kernel_attention_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                               const DLTensor *level_start_index,
                                                               const DLTensor *sampling_locations,
                                                               const DLTensor *attention_weights, const DLTensor *grad_output,
                                                               DLTensor *grad_value, DLTensor *grad_attention_weights) {
    using namespace deformkit;
    return guarded([&] {
        run_on_used_keys(check_gka_backward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                            grad_output, grad_value, grad_attention_weights),
                         &GkaBackwardCall::grad_value);
    });
}
