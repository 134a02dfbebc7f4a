// Multi-scale deformable attention, forward and backward.
#include <utility>

#include "hand.h"
#include "operators.h"

namespace deformkit::bench {
namespace {

using testing::Locations;
using testing::MsdaInputs;
using testing::MsdaWorkload;

/// One query on maps that stay in the first-level cache: what is left is validation, dispatch and setting up.
const MsdaWorkload kCallOverhead{"call_overhead", 1, 1, 8, 32, {{8, 8}, {4, 4}, {2, 2}, {1, 1}}, 4, Locations::kWide};

Workload forward_of(const MsdaWorkload &w) {
    const auto levels = static_cast<int64_t>(w.levels.size());
    Workload workload;
    workload.name = w.name;
    workload.samples = w.batch * w.queries * w.heads * levels * w.points;
    workload.channels = w.channels;
    workload.arguments = {
        {"value", Argument::kInput, {w.batch, w.keys(), w.heads, w.channels}},
        {"spatial_shapes", Argument::kIndex, {levels, 2}},
        {"level_start_index", Argument::kIndex, {levels}},
        {"sampling_locations", Argument::kInput, {w.batch, w.queries, w.heads, levels, w.points, 2}},
        {"attention_weights", Argument::kInput, {w.batch, w.queries, w.heads, levels, w.points}},
        {"output", Argument::kOutput, {w.batch, w.queries, w.heads * w.channels}},
    };
    workload.make_inputs = [w] {
        MsdaInputs inputs = testing::make_msda_inputs(w, kInputSeed);
        std::vector<Numbers> numbers(6);
        numbers[0].floats = std::move(inputs.value);
        numbers[1].indices = std::move(inputs.spatial_shapes);
        numbers[2].indices = std::move(inputs.level_start_index);
        numbers[3].floats = std::move(inputs.sampling_locations);
        numbers[4].floats = std::move(inputs.attention_weights);
        return numbers;
    };
    if (hand_msda_supports(w)) {
        workload.hand = [w](void *const *data, int num_threads) {
            hand_msda_forward(w, static_cast<const float *>(data[0]), static_cast<const int64_t *>(data[1]),
                              static_cast<const int64_t *>(data[2]), static_cast<const float *>(data[3]),
                              static_cast<const float *>(data[4]), static_cast<float *>(data[5]), num_threads);
        };
    }
    return workload;
}

/// The forward's inputs, and all three gradients.
Workload backward_of(const MsdaWorkload &w) {
    Workload workload = forward_of(w);
    std::vector<Argument> &arguments = workload.arguments;
    arguments.back().name = "grad_output";
    arguments.back().kind = Argument::kInput;
    for (size_t i : {0, 3, 4}) {
        arguments.push_back({"grad_" + arguments[i].name, Argument::kOutput, arguments[i].shape});
    }
    workload.make_inputs = [w, forward = workload.make_inputs] {
        std::vector<Numbers> numbers = forward();
        numbers[5].floats = testing::uniform_numbers(w.batch * w.queries * w.heads * w.channels, kInputSeed + 1);
        numbers.resize(9);
        return numbers;
    };
    workload.hand = nullptr;
    return workload;
}

Pass make_pass(const char *name, Workload (*workload_of)(const MsdaWorkload &)) {
    Pass pass;
    pass.op = "msda";
    pass.name = name;
    pass.title = std::string("MSDA ") + name;
    pass.overhead = workload_of(kCallOverhead);
    for (const MsdaWorkload &w : testing::msda_model_workloads()) {
        pass.workloads.push_back(workload_of(w));
    }
    return pass;
}

}  // namespace

Pass msda_forward() {
    Pass pass = make_pass("forward", forward_of);
    pass.variant_of = "forward";
    pass.function = "deformkit_msda_forward";
    pass.call = calling(deformkit_msda_forward);
    return pass;
}

Pass msda_backward() {
    Pass pass = make_pass("backward", backward_of);
    pass.variant_of = "backward_value";
    pass.function = "deformkit_msda_backward";
    pass.call = calling(deformkit_msda_backward);
    return pass;
}

}  // namespace deformkit::bench
