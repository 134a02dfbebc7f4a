#include "runtime/cpu/plan.h"
#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"

deformkit_status deformkit_geometric_kernel_attention_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                              const DLTensor *level_start_index,
                                                              const DLTensor *sampling_locations,
                                                              const DLTensor *attention_weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        MsdaInputs a = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                        LocationUnit::kCell);
        const Tensor rows = view_rows("output", output, a);
        require_no_overlap(rows,
                           {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights});
        drop_unused_keys(a);
        run(GkaForwardCall{a, rows});
    });
}

deformkit_status deformkit_geometric_kernel_attention_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                                               const DLTensor *level_start_index,
                                                               const DLTensor *sampling_locations,
                                                               const DLTensor *attention_weights, const DLTensor *grad_output,
                                                               DLTensor *grad_value, DLTensor *grad_attention_weights) {
    using namespace deformkit;
    return guarded([&] {
        MsdaInputs a = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                        LocationUnit::kCell);
        const Tensor rows = view_rows("grad_output", grad_output, a);
        std::optional<Tensor> value_gradient = view_gradient("grad_value", grad_value, a.value);
        const std::optional<Tensor> weights_gradient =
            view_gradient("grad_attention_weights", grad_attention_weights, a.attention_weights);
        require_no_overlap({&value_gradient, &weights_gradient}, {&a.value, &a.spatial_shapes, &a.level_start_index,
                                                                  &a.sampling_locations, &a.attention_weights, &rows});
        drop_unused_keys(a, &value_gradient);
        run(GkaBackwardCall{a, rows, value_gradient, weights_gradient});
    });
}
