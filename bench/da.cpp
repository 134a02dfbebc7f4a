// Deformable aggregation, forward and backward.
#include <string>
#include <utility>

#include "bench/operators.h"

namespace deformkit::bench {
namespace {

using testing::DaInputs;
using testing::DaWorkload;

/// One anchor on maps that stay in the first-level cache: what is left is validation, dispatch and setting up.
const DaWorkload kCallOverhead{"call_overhead", 1, 1, 1, 1, {{4, 4}}, 8, 32, 1.0};

Workload forward_of(const DaWorkload &w) {
    const auto scales = static_cast<int64_t>(w.scales.size());
    Workload workload;
    workload.name = w.name;
    workload.samples = w.batch * w.anchors * w.points * w.cameras * scales;
    workload.channels = w.groups * w.channels;
    workload.arguments = {
        {"feature_maps", Argument::kInput, {w.batch, w.cells(), w.groups * w.channels}},
        {"spatial_shape", Argument::kIndex, {w.cameras, scales, 2}},
        {"scale_start_index", Argument::kIndex, {w.cameras, scales}},
        {"sample_locations", Argument::kInput, {w.batch, w.anchors, w.points, w.cameras, 2}},
        {"weights", Argument::kInput, {w.batch, w.anchors, w.points, w.cameras, scales, w.groups}},
        {"output", Argument::kOutput, {w.batch, w.anchors, w.groups * w.channels}},
    };
    workload.make_inputs = [w] {
        DaInputs inputs = testing::make_da_inputs(w, kInputSeed);
        return forward_inputs(std::move(inputs.feature_maps), std::move(inputs.spatial_shape),
                              std::move(inputs.scale_start_index), std::move(inputs.sample_locations),
                              std::move(inputs.weights));
    };
    return workload;
}

Workload with_gradients_of(const DaWorkload &w) {
    return backward_of(forward_of(w), {0, 3, 4});
}

Pass described(const char *name, Workload (*workload_of)(const DaWorkload &)) {
    return make_pass("da", name, std::string("Deformable aggregation ") + name, workload_of, kCallOverhead,
                     testing::da_model_workloads());
}

}  // namespace

Pass da_forward() {
    Pass pass = described("forward", forward_of);
    pass.variant_of = "forward";
    pass.function = "deformkit_deformable_aggregation_forward";
    pass.call = calling(deformkit_deformable_aggregation_forward);
    return pass;
}

Pass da_backward() {
    Pass pass = described("backward", with_gradients_of);
    pass.variant_of = "backward_value";
    pass.function = "deformkit_deformable_aggregation_backward";
    pass.call = calling(deformkit_deformable_aggregation_backward);
    return pass;
}

}  // namespace deformkit::bench
