#include "bench/operators.h"

#include <utility>

namespace deformkit::bench {

std::vector<Numbers> forward_inputs(std::vector<float> maps, std::vector<int64_t> shapes, std::vector<int64_t> starts,
                                    std::vector<float> locations, std::vector<float> weights) {
    return {{std::move(maps), {}},      {{}, std::move(shapes)},  {{}, std::move(starts)},
            {std::move(locations), {}}, {std::move(weights), {}}, {}};
}

Workload backward_of(const Workload &forward, std::initializer_list<size_t> wanted) {
    Workload workload = forward;
    workload.hand = nullptr;
    std::vector<Argument> &arguments = workload.arguments;
    const size_t grad_output = arguments.size() - 1;
    arguments.back().name = "grad_output";
    arguments.back().kind = Argument::kInput;
    int64_t elements = 1;
    for (const int64_t extent : arguments.back().shape) {
        elements *= extent;
    }
    for (const size_t i : wanted) {
        arguments.push_back({"grad_" + arguments[i].name, Argument::kOutput, arguments[i].shape});
    }
    workload.make_inputs = [=, make_forward = forward.make_inputs, count = arguments.size()] {
        std::vector<Numbers> numbers = make_forward();
        numbers[grad_output].floats = testing::uniform_numbers(elements, kInputSeed + 1);
        numbers.resize(count);
        return numbers;
    };
    return workload;
}

const testing::MsdaWorkload kAttentionCallOverhead{"call_overhead",          1, 1, 8, 32, {{8, 8}, {4, 4}, {2, 2}, {1, 1}}, 4,
                                                   testing::Locations::kWide};

Workload attention_forward(const testing::MsdaWorkload &w,
                           testing::MsdaInputs (*make_inputs)(const testing::MsdaWorkload &, uint32_t seed)) {
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
    workload.make_inputs = [w, make_inputs] {
        testing::MsdaInputs inputs = make_inputs(w, kInputSeed);
        return forward_inputs(std::move(inputs.value), std::move(inputs.spatial_shapes), std::move(inputs.level_start_index),
                              std::move(inputs.sampling_locations), std::move(inputs.attention_weights));
    };
    return workload;
}

const std::vector<Pass> &passes() {
    static const std::vector<Pass> all = {msda_forward(), msda_backward(), da_forward(),
                                          da_backward(),  gka_forward(),   gka_backward()};
    return all;
}

}  // namespace deformkit::bench
