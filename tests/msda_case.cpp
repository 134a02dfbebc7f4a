#include "tests/msda_case.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/support/reference.h"

namespace deformkit::testing {

namespace {

/// One batch element: the reference of the largest model would take gigabytes.
MsdaReferenceInputs batch_element(const MsdaReferenceInputs &in, int64_t b, Type type) {
    const auto slice = [&](const std::vector<double> &all) {
        const auto count = static_cast<int64_t>(all.size()) / in.B;
        return rounded(type, std::vector<double>(all.begin() + b * count, all.begin() + (b + 1) * count));
    };
    return {1,
            in.K,
            in.M,
            in.D,
            in.Q,
            in.L,
            in.P,
            slice(in.value),
            slice(in.locations),
            slice(in.weights),
            in.shapes,
            in.starts,
            slice(in.grad_output)};
}

Expected forward_reference(const MsdaReferenceInputs &in, Type type) {
    const auto view = [](const auto &data, const std::vector<int64_t> &shape) {
        return View<typename std::decay_t<decltype(data)>::value_type>{data.data(), shape, dense_strides(shape)};
    };
    Expected output;
    std::vector<double> magnitude, sensitivity;
    output.values = msda_forward_reference(view(in.value, {1, in.K, in.M, in.D}), view(in.shapes, {in.L, 2}),
                                           view(in.starts, {in.L}), view(in.locations, {1, in.Q, in.M, in.L, in.P, 2}),
                                           view(in.weights, {1, in.Q, in.M, in.L, in.P}), &magnitude, &sensitivity,
                                           rounding_of_arithmetic(type));
    output.tolerances.resize(output.values.size());
    for (size_t i = 0; i < output.values.size(); i++) {
        output.tolerances[i] = msda_forward_tolerance(type, in.L * in.P, magnitude[i], sensitivity[i]);
    }
    return output;
}

}  // namespace

MsdaCase::MsdaCase(const MsdaWorkload &w, Type type, Pass pass, uint32_t seed) : Problem(type, pass) {
    MsdaInputs inputs = make_msda_inputs(w, seed);
    in = {w.batch,
          w.keys(),
          w.heads,
          w.channels,
          w.queries,
          static_cast<int64_t>(w.levels.size()),
          w.points,
          stored_numbers(inputs.value, type),
          stored_numbers(inputs.sampling_locations, type),
          stored_numbers(inputs.attention_weights, type),
          std::move(inputs.spatial_shapes),
          std::move(inputs.level_start_index),
          {}};
    if (pass == Pass::kBackward) {
        in.grad_output = some_gradient(in.B * in.Q * in.M * in.D, type, seed);
    }
}

MsdaCase MsdaCase::smallest(Type type, Pass pass) {
    MsdaCase c({"", 1, 1, 1, 1, {{1, 1}}, 1, Locations::kWide}, type, pass);
    c.in.value = {3}, c.in.locations = {0.25, 0.5}, c.in.weights = {2};
    return c;
}

std::vector<Operand> MsdaCase::operands() const {
    const DLDataType number = dtype_of(type_), integer = {kDLInt, 64, 1};
    const std::vector<int64_t> value = {in.B, in.K, in.M, in.D}, weights = {in.B, in.Q, in.M, in.L, in.P};
    const std::vector<int64_t> locations = {in.B, in.Q, in.M, in.L, in.P, 2}, rows = {in.B, in.Q, in.M * in.D};
    const std::vector<int64_t> split = {in.B, in.Q, in.M, in.D};
    std::vector<Operand> all = {
        {"value", number, value, in.value, {}},
        {"spatial_shapes", integer, {in.L, 2}, {}, in.shapes, false, true},
        {"level_start_index", integer, {in.L}, {}, in.starts, false, true},
        {"sampling_locations", number, locations, in.locations, {}},
        {"attention_weights", number, weights, in.weights, {}},
    };
    if (pass_ == Pass::kForward) {
        all.push_back({"output", number, rows, {}, {}, true, false, split});
        return all;
    }
    all.push_back({"grad_output", number, rows, in.grad_output, {}, false, false, split});
    all.push_back({"grad_value", number, value, {}, {}, true});
    all.push_back({"grad_sampling_locations", number, locations, {}, {}, true});
    all.push_back({"grad_attention_weights", number, weights, {}, {}, true});
    return all;
}

deformkit_status MsdaCase::call(const std::vector<DLTensor *> &t) const {
    if (pass_ == Pass::kForward) {
        return deformkit_msda_forward(t[0], t[1], t[2], t[3], t[4], t[5]);
    }
    return deformkit_msda_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]);
}

std::vector<Expected> MsdaCase::expected() const {
    std::vector<Expected> all(pass_ == Pass::kForward ? 1 : 3);
    for (int64_t b = 0; b < in.B; b++) {
        const MsdaReferenceInputs one = batch_element(in, b, type_);
        if (pass_ == Pass::kForward) {
            all[0].append(forward_reference(one, type_));
        } else {
            const MsdaBackwardExpected gradients = msda_backward_reference(one, type_);
            all[0].append(gradients.value);
            all[1].append(gradients.locations);
            all[2].append(gradients.weights);
        }
    }
    return all;
}

Problem::Numbers MsdaCase::numbers() {
    Numbers all = {{"value", &in.value}, {"sampling_locations", &in.locations}, {"attention_weights", &in.weights}};
    if (pass_ == Pass::kBackward) {
        all.emplace_back("grad_output", &in.grad_output);
    }
    return all;
}

bool MsdaCase::is_trivial() const {
    return samples() * in.K * in.D == 0;
}

void MsdaCase::avoid_ties() {
    for (size_t i = 0; i < in.locations.size(); i++) {
        const int64_t level = static_cast<int64_t>(i) / 2 / in.P % in.L;
        const auto extent = static_cast<double>(in.shapes[2 * level + (i % 2 == 0 ? 1 : 0)]);
        const double position = in.locations[i] * extent - 0.5, cell = std::floor(position);
        // Rounding for storage moves it by less than what is left on either side (bfloat16: 1/512 of up to 50 cells).
        in.locations[i] = nearest(type_, (cell + 0.2 + 0.6 * (position - cell) + 0.5) / extent);
    }
}

MsdaCase take_queries(const MsdaCase &from, int64_t queries) {
    MsdaCase to = from;
    to.in.Q = std::min(queries, from.in.Q);
    for (auto numbers : {&MsdaReferenceInputs::locations, &MsdaReferenceInputs::weights, &MsdaReferenceInputs::grad_output}) {
        const std::vector<double> &all = from.in.*numbers;
        const int64_t count = static_cast<int64_t>(all.size()) / std::max<int64_t>(from.in.B * from.in.Q, 1);
        (to.in.*numbers).clear();
        for (int64_t i = 0; i < to.in.B * to.in.Q; i++) {
            const int64_t q = i / to.in.Q * from.in.Q + i % to.in.Q * from.in.Q / to.in.Q;
            (to.in.*numbers).insert((to.in.*numbers).end(), all.begin() + q * count, all.begin() + (q + 1) * count);
        }
    }
    return to;
}

const MsdaWorkload &awkward_workload(const std::string &name) {
    for (const MsdaWorkload &workload : msda_awkward_workloads()) {
        if (workload.name == name) {
            return workload;
        }
    }
    throw std::invalid_argument("no workload " + name);
}

MsdaWorkload crowded(MsdaWorkload workload) {
    const int64_t samples = static_cast<int64_t>(workload.levels.size()) * workload.points;
    if (samples > 0 && workload.queries > 0) {
        workload.queries = std::max(workload.queries, 64 * workload.keys() / (4 * samples) + 1);
    }
    return workload;
}

}  // namespace deformkit::testing
