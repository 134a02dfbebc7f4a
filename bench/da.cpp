// Deformable aggregation, forward and backward.
#include <utility>

#include "operators.h"

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
        std::vector<Numbers> numbers(6);
        numbers[0].floats = std::move(inputs.feature_maps);
        numbers[1].indices = std::move(inputs.spatial_shape);
        numbers[2].indices = std::move(inputs.scale_start_index);
        numbers[3].floats = std::move(inputs.sample_locations);
        numbers[4].floats = std::move(inputs.weights);
        return numbers;
    };
    return workload;
}

/// The forward's inputs, and all three gradients.
Workload backward_of(const DaWorkload &w) {
    Workload workload = forward_of(w);
    std::vector<Argument> &arguments = workload.arguments;
    arguments.back().name = "grad_output";
    arguments.back().kind = Argument::kInput;
    for (size_t i : {0, 3, 4}) {
        arguments.push_back({"grad_" + arguments[i].name, Argument::kOutput, arguments[i].shape});
    }
    workload.make_inputs = [w, forward = workload.make_inputs] {
        std::vector<Numbers> numbers = forward();
        numbers[5].floats = testing::uniform_numbers(w.batch * w.anchors * w.groups * w.channels, kInputSeed + 1);
        numbers.resize(9);
        return numbers;
    };
    return workload;
}

Pass make_pass(const char *name, Workload (*workload_of)(const DaWorkload &)) {
    Pass pass;
    pass.op = "da";
    pass.name = name;
    pass.title = std::string("Deformable aggregation ") + name;
    pass.overhead = workload_of(kCallOverhead);
    for (const DaWorkload &w : testing::da_model_workloads()) {
        pass.workloads.push_back(workload_of(w));
    }
    return pass;
}

}  // namespace

Pass da_forward() {
    Pass pass = make_pass("forward", forward_of);
    pass.variant_of = "forward";
    pass.function = "deformkit_deformable_aggregation_forward";
    pass.call = calling(deformkit_deformable_aggregation_forward);
    return pass;
}

Pass da_backward() {
    Pass pass = make_pass("backward", backward_of);
    pass.variant_of = "backward_value";
    pass.function = "deformkit_deformable_aggregation_backward";
    pass.call = calling(deformkit_deformable_aggregation_backward);
    return pass;
}

}  // namespace deformkit::bench
