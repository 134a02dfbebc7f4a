#include "tests/da_case.h"

#include <cmath>
#include <stdexcept>

namespace deformkit::testing {

DaCase::DaCase(const DaWorkload &w, Type type, Pass pass, uint32_t seed) : Problem(type, pass) {
    const DaInputs inputs = make_da_inputs(w, seed);
    in = {w.batch,
          w.cells(),
          w.groups * w.channels,
          w.anchors,
          w.points,
          w.cameras,
          static_cast<int64_t>(w.scales.size()),
          w.groups,
          stored_numbers(inputs.feature_maps, type),
          stored_numbers(inputs.sample_locations, type),
          stored_numbers(inputs.weights, type),
          inputs.spatial_shape,
          inputs.scale_start_index,
          {}};
    if (pass == Pass::kBackward) {
        in.grad_output = some_gradient(in.B * in.A * in.C, type, seed);
    }
    avoid_ties();
}

void DaCase::avoid_ties() {
    const double rounding = rounding_of_arithmetic(type_);
    for (size_t i = 0; i < in.locations.size(); i++) {
        for (int attempt = 0; attempt < 64; attempt++) {
            bool tie = false;
            for (int64_t s = 0; s < in.S; s++) {
                const int64_t map = static_cast<int64_t>(i) / 2 % in.N * in.S + s;
                const auto extent = static_cast<double>(in.shapes[2 * map + (i % 2 == 0 ? 1 : 0)]);
                const double position = in.locations[i] * extent - 0.5, margin = 1e-4 + 4 * rounding * std::fabs(extent);
                tie |= margin < 0.25 && std::fabs(position - std::round(position)) < margin;
            }
            if (!tie) {
                break;
            }
            in.locations[i] = nearest(type_, in.locations[i] + 1.0 / 256 * (attempt + 1));
        }
    }
}

bool DaCase::is_trivial() const {
    return in.B * in.A * in.C == 0 || in.K * in.P * in.N * in.S == 0;
}

std::vector<Operand> DaCase::operands() const {
    const DLDataType number = dtype_of(type_), integer = {kDLInt, 64, 1};
    const std::vector<int64_t> locations = {in.B, in.A, in.P, in.N, 2}, weights = {in.B, in.A, in.P, in.N, in.S, in.G};
    std::vector<Operand> all = {
        {"feature_maps", number, {in.B, in.K, in.C}, in.feature_maps, {}},
        {"spatial_shape", integer, {in.N, in.S, 2}, {}, in.shapes, false, true},
        {"scale_start_index", integer, {in.N, in.S}, {}, in.starts, false, true},
        {"sample_locations", number, locations, in.locations, {}},
        {"weights", number, weights, in.weights, {}},
    };
    if (pass_ == Pass::kForward) {
        all.push_back({"output", number, {in.B, in.A, in.C}, {}, {}, true});
        return all;
    }
    all.push_back({"grad_output", number, {in.B, in.A, in.C}, in.grad_output, {}});
    all.push_back({"grad_feature_maps", number, {in.B, in.K, in.C}, {}, {}, true});
    all.push_back({"grad_sample_locations", number, locations, {}, {}, true});
    all.push_back({"grad_weights", number, weights, {}, {}, true});
    return all;
}

deformkit_status DaCase::call(const std::vector<DLTensor *> &t) const {
    if (pass_ == Pass::kForward) {
        return deformkit_deformable_aggregation_forward(t[0], t[1], t[2], t[3], t[4], t[5]);
    }
    return deformkit_deformable_aggregation_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]);
}

Problem::Numbers DaCase::numbers() {
    Numbers all = {{"feature_maps", &in.feature_maps}, {"sample_locations", &in.locations}, {"weights", &in.weights}};
    if (pass_ == Pass::kBackward) {
        all.emplace_back("grad_output", &in.grad_output);
    }
    return all;
}

std::vector<Expected> DaCase::expected() const {
    DaCase stored = *this;
    for (const auto &[name, numbers] : stored.numbers()) {
        *numbers = rounded(type_, *numbers);
    }
    const double rounding = rounding_of_arithmetic(type_) * (type_ == Type::kF64 ? 2 : 1);
    if (pass_ == Pass::kForward) {
        return {da_forward_reference(stored.in, rounding)};
    }
    const DaGradients g = da_backward_reference(stored.in, rounding);
    return {g.feature_maps, g.locations, g.weights};
}

DaCase DaCase::smallest(Type type, Pass pass) {
    return {da_workload("one_of_everything"), type, pass};
}

const DaWorkload &da_workload(const std::string &name) {
    for (const DaWorkload &workload : da_awkward_workloads()) {
        if (workload.name == name) {
            return workload;
        }
    }
    throw std::invalid_argument("no workload " + name);
}

}  // namespace deformkit::testing
