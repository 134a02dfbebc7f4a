#include "tests/da_case.h"

#include <cmath>
#include <stdexcept>

namespace deformkit::testing {

namespace {

std::vector<double> numbers(const std::vector<float> &floats, Type type) {
    // For float64 with digits that float32 has no place for.
    const double scale = type == Type::kF64 ? 1 - 0x1.23456789abcdp-25 : 1;
    std::vector<double> result;
    for (float x : floats) {
        result.push_back(nearest(type, x * scale));
    }
    return result;
}

}  // namespace

DaCase::DaCase(const DaWorkload &w, Type type, Pass pass, uint32_t seed) : type_(type), pass_(pass) {
    const DaInputs inputs = make_da_inputs(w, seed);
    in = {w.batch,
          w.cells(),
          w.groups * w.channels,
          w.anchors,
          w.points,
          w.cameras,
          static_cast<int64_t>(w.scales.size()),
          w.groups,
          numbers(inputs.feature_maps, type),
          numbers(inputs.sample_locations, type),
          numbers(inputs.weights, type),
          inputs.spatial_shape,
          inputs.scale_start_index,
          {}};
    if (pass == Pass::kBackward) {
        for (int64_t i = 0; i < in.B * in.A * in.C; i++) {
            in.grad_output.push_back(nearest(type, std::sin(0.7 * static_cast<double>(i) + seed)));
        }
    }
    avoid_ties();
}

void DaCase::avoid_ties() {
    for (size_t i = 0; i < in.locations.size(); i++) {
        for (int attempt = 0; attempt < 64; attempt++) {
            bool tie = false;
            for (int64_t s = 0; s < in.S; s++) {
                const int64_t map = static_cast<int64_t>(i) / 2 % in.N * in.S + s;
                const double position = in.locations[i] * static_cast<double>(in.shapes[2 * map + (i % 2 == 0 ? 1 : 0)]) - 0.5;
                tie |= std::fabs(position - std::round(position)) < 1e-4;
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

DaReferenceInputs DaCase::stored() const {
    DaReferenceInputs stored = in;
    for (std::vector<double> *all : {&stored.feature_maps, &stored.locations, &stored.weights, &stored.grad_output}) {
        for (double &number : *all) {
            number = nearest(type_, number);
        }
    }
    return stored;
}

std::vector<Expected> DaCase::expected() const {
    const double rounding = rounding_of_arithmetic(type_) * (type_ == Type::kF64 ? 2 : 1);
    const auto of = [](const Bounded &b) { return Expected{b.values, b.tolerances}; };
    if (pass_ == Pass::kForward) {
        return {of(da_forward_reference(stored(), rounding))};
    }
    const DaGradients g = da_backward_reference(stored(), rounding);
    return {of(g.feature_maps), of(g.locations), of(g.weights)};
}

deformkit_status try_da(DaCase::Pass pass, Type type) {
    const DaCase smallest(da_workload("one_of_everything"), type, pass);
    const ProblemTensors tensors(smallest);
    return tensors.call();
}

const DaWorkload &da_workload(const std::string &name) {
    for (const DaWorkload &workload : da_awkward_workloads()) {
        if (workload.name == name) {
            return workload;
        }
    }
    throw std::invalid_argument("no workload " + name);
}

void for_each_da_variant(DaCase::Pass pass, const std::string &suite, const std::string &name, const VariantTest::Body &body,
                         const std::string &type) {
    for_each_variant(
        "da", pass == DaCase::Pass::kForward ? "forward" : "backward_value", suite, name,
        [=](Type of) { return try_da(pass, of); }, body, type);
}

}  // namespace deformkit::testing
