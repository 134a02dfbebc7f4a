#include "runtime/interface/msda.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/interface/error.h"
#include "runtime/interface/gradients.h"
#include "runtime/interface/used_keys.h"

namespace deformkit {

Level MsdaInputs::level(int64_t l) const {
    Level level = {read_index(spatial_shapes, l, 0), read_index(spatial_shapes, l, 1), read_index(level_start_index, l)};
    // Where keys were dropped, all cells have a key: only of a level without cells may the first be any number.
    level.first_key -= level.empty() ? 0 : first_key;
    return level;
}

MsdaInputs view_msda_inputs(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                            const DLTensor *sampling_locations, const DLTensor *attention_weights, LocationUnit unit) {
    MsdaInputs a;
    a.value = view("value", value, {4});
    a.spatial_shapes = view("spatial_shapes", spatial_shapes, {2});
    a.level_start_index = view("level_start_index", level_start_index, {1});
    a.sampling_locations = view("sampling_locations", sampling_locations, {6});
    a.attention_weights = view("attention_weights", attention_weights, {5});
    a.B = a.value.shape[0];
    a.K = a.value.shape[1];
    a.M = a.value.shape[2];
    a.D = a.value.shape[3];
    a.Q = a.sampling_locations.shape[1];
    a.L = a.spatial_shapes.shape[0];
    a.P = a.sampling_locations.shape[4];

    require_storage_dtype(a.value);
    require_index_dtype(a.spatial_shapes);
    require_index_dtype(a.level_start_index);
    if (unit == LocationUnit::kMap) {
        require_same_dtype(a.sampling_locations, a.value);
    } else {
        require_number_dtype(a.sampling_locations);
    }
    require_same_dtype(a.attention_weights, a.value);
    require_extent(a.spatial_shapes, 1, 2, "height and width");
    require_extent(a.level_start_index, 0, a.L, "L = spatial_shapes.shape[0]");
    require_extent(a.sampling_locations, 0, a.B, "B = value.shape[0]");
    require_extent(a.sampling_locations, 2, a.M, "M = value.shape[2]");
    require_extent(a.sampling_locations, 3, a.L, "L = spatial_shapes.shape[0]");
    require_extent(a.sampling_locations, 5, 2, "x and y");
    require_extent(a.attention_weights, 0, a.B, "B = value.shape[0]");
    require_extent(a.attention_weights, 1, a.Q, "Q = sampling_locations.shape[1]");
    require_extent(a.attention_weights, 2, a.M, "M = value.shape[2]");
    require_extent(a.attention_weights, 3, a.L, "L = spatial_shapes.shape[0]");
    require_extent(a.attention_weights, 4, a.P, "P = sampling_locations.shape[4]");
    return a;
}

Tensor view_output(const char *name, const DLTensor *tensor, const MsdaInputs &a) {
    Tensor output = view(name, tensor, {3, 4});
    require_same_dtype(output, a.value);
    require_extent(output, 0, a.B, "B = value.shape[0]");
    require_extent(output, 1, a.Q, "Q = sampling_locations.shape[1]");
    if (output.ndim == 3) {
        require_extent(output, 2, product({a.M, a.D}), "M * D of value");
        return output.split_axis(2, a.D);
    }
    require_extent(output, 2, a.M, "M = value.shape[2]");
    require_extent(output, 3, a.D, "D = value.shape[3]");
    return output;
}

MsdaForwardCall check_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                   const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                   const DLTensor *output) {
    MsdaForwardCall call;
    call.inputs = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights);
    call.output = view_output("output", output, call.inputs);
    const MsdaInputs &a = call.inputs;
    require_no_overlap(call.output,
                       {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights});
    return call;
}

MsdaBackwardCall check_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes, const DLTensor *level_start_index,
                                     const DLTensor *sampling_locations, const DLTensor *attention_weights,
                                     const DLTensor *grad_output, const DLTensor *grad_value,
                                     const DLTensor *grad_sampling_locations, const DLTensor *grad_attention_weights) {
    MsdaBackwardCall call;
    call.inputs = view_msda_inputs(value, spatial_shapes, level_start_index, sampling_locations, attention_weights);
    const MsdaInputs &a = call.inputs;
    call.grad_output = view_output("grad_output", grad_output, a);
    call.grad_value = view_gradient("grad_value", grad_value, a.value);
    call.grad_locations = view_gradient("grad_sampling_locations", grad_sampling_locations, a.sampling_locations);
    call.grad_weights = view_gradient("grad_attention_weights", grad_attention_weights, a.attention_weights);
    require_no_overlap(
        {&call.grad_value, &call.grad_locations, &call.grad_weights},
        {&a.value, &a.spatial_shapes, &a.level_start_index, &a.sampling_locations, &a.attention_weights, &call.grad_output});
    return call;
}

void drop_unused_keys(MsdaInputs &a) {
    if (a.is_empty() || keys_addressable(a.K, std::max(std::abs(a.value.strides[1]), round_up(a.D, kChannelMultiple)))) {
        return;
    }
    // However many are claimed, no more levels than those that lie in memory.
    const int64_t levels = a.spatial_shapes.strides[0] == 0 && a.level_start_index.strides[0] == 0 ? 1 : a.L;
    const KeyRange used = used_keys(
        levels, [&](int64_t l) { return a.level(l); }, a.K);
    a.value = slice(a.value, 1, used.first, used.count);
    a.K = used.count;
    a.first_key = used.first;
}

int64_t batches_at_once(const MsdaInputs &a, std::initializer_list<const Tensor *> others, int64_t bytes) {
    const bool all_fit =
        items_addressable(a.value) && items_addressable(a.sampling_locations) && items_addressable(a.attention_weights) &&
        std::all_of(others.begin(), others.end(), [](const Tensor *other) { return items_addressable(*other); });
    const int64_t batch_bytes = std::max<int64_t>(1, product({a.K, a.M, a.D, a.value.element_bytes()}));
    return all_fit ? std::clamp<int64_t>(bytes / batch_bytes, 1, std::max<int64_t>(a.B, 1)) : 1;
}

}  // namespace deformkit

deformkit_status deformkit_msda_forward(const DLTensor *value, const DLTensor *spatial_shapes,
                                        const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                        const DLTensor *attention_weights, DLTensor *output) {
    using namespace deformkit;
    return guarded([&] {
        run_on_used_keys(
            check_msda_forward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights, output));
    });
}

deformkit_status deformkit_msda_backward(const DLTensor *value, const DLTensor *spatial_shapes,
                                         const DLTensor *level_start_index, const DLTensor *sampling_locations,
                                         const DLTensor *attention_weights, const DLTensor *grad_output, DLTensor *grad_value,
                                         DLTensor *grad_sampling_locations, DLTensor *grad_attention_weights) {
    using namespace deformkit;
    return guarded([&] {
        run_on_used_keys(check_msda_backward(value, spatial_shapes, level_start_index, sampling_locations, attention_weights,
                                             grad_output, grad_value, grad_sampling_locations, grad_attention_weights),
                         &MsdaBackwardCall::grad_value);
    });
}
