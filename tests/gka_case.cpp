#include "tests/gka_case.h"

#include <algorithm>
#include <cmath>

namespace deformkit::testing {

GkaCase::GkaCase(const MsdaWorkload &w, Type type, Pass pass, uint32_t seed) : Problem(type, pass) {
    const MsdaInputs inputs = make_gka_inputs(w, seed);
    in = {w.batch,
          w.keys(),
          w.heads,
          w.channels,
          w.queries,
          static_cast<int64_t>(w.levels.size()),
          w.points,
          stored_numbers(inputs.value, type),
          stored_numbers(inputs.sampling_locations, Type::kF32),
          stored_numbers(inputs.attention_weights, type),
          inputs.spatial_shapes,
          inputs.level_start_index,
          {}};
    if (pass == Pass::kBackward) {
        in.grad_output = some_gradient(in.B * in.Q * in.M * in.D, type, seed);
    }
}

bool GkaCase::is_trivial() const {
    return in.B * in.Q * in.M * in.D == 0 || in.K * in.L * in.P == 0;
}

std::vector<double> GkaCase::stored_locations() const {
    std::vector<double> locations = in.locations;
    for (double &x : locations) {
        if (location_dtype_.code == kDLInt) {
            const double most = std::ldexp(1.0, std::min<int>(location_dtype_.bits, 53) - 1) - 1;
            x = std::isnan(x) ? 0 : std::trunc(std::clamp(x, -most, most));
        } else {
            x = nearest(type_of(location_dtype_), x);
        }
    }
    return locations;
}

std::vector<Operand> GkaCase::operands() const {
    const DLDataType number = dtype_of(type_), integer = {kDLInt, 64, 1};
    const std::vector<int64_t> weights = {in.B, in.Q, in.M, in.L, in.P}, rows = {in.B, in.Q, in.M * in.D};
    const std::vector<int64_t> split = {in.B, in.Q, in.M, in.D};
    Operand locations{"sampling_locations", location_dtype_, {in.B, in.Q, in.M, in.L, in.P, 2}, {}, {}};
    locations.numbers = stored_locations();
    locations.any_number = true;
    if (location_dtype_.code == kDLInt) {
        locations.integers.assign(locations.numbers.begin(), locations.numbers.end());
    }
    std::vector<Operand> all = {
        {"value", number, {in.B, in.K, in.M, in.D}, in.value, {}},
        {"spatial_shapes", integer, {in.L, 2}, {}, in.shapes, false, true},
        {"level_start_index", integer, {in.L}, {}, in.starts, false, true},
        locations,
        {"attention_weights", number, weights, in.weights, {}},
    };
    if (pass_ == Pass::kForward) {
        all.push_back({"output", number, rows, {}, {}, true, false, split});
        return all;
    }
    all.push_back({"grad_output", number, rows, in.grad_output, {}, false, false, split});
    all.push_back({"grad_value", number, {in.B, in.K, in.M, in.D}, {}, {}, true});
    all.push_back({"grad_attention_weights", number, weights, {}, {}, true});
    return all;
}

deformkit_status GkaCase::call(const std::vector<DLTensor *> &t) const {
    if (pass_ == Pass::kForward) {
        return deformkit_geometric_kernel_attention_forward(t[0], t[1], t[2], t[3], t[4], t[5]);
    }
    return deformkit_geometric_kernel_attention_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]);
}

Problem::Numbers GkaCase::numbers() {
    Numbers all = {{"value", &in.value}, {"attention_weights", &in.weights}};
    if (location_dtype_.code != kDLInt) {
        all.emplace_back("sampling_locations", &in.locations);
    }
    if (pass_ == Pass::kBackward) {
        all.emplace_back("grad_output", &in.grad_output);
    }
    return all;
}

std::vector<Expected> GkaCase::expected() const {
    GkaCase stored = *this;
    for (const auto &[name, numbers] : stored.numbers()) {
        *numbers = rounded(type_, *numbers);
    }
    stored.in.locations = stored_locations();
    const double rounding = rounding_of_arithmetic(type_) * (type_ == Type::kF64 ? 2 : 1);
    if (pass_ == Pass::kForward) {
        return {gka_forward_reference(stored.in, rounding)};
    }
    const GkaGradients g = gka_backward_reference(stored.in, rounding);
    return {g.value, g.weights};
}

GkaCase GkaCase::smallest(Type type, Pass pass) {
    return {{"", 1, 1, 1, 1, {{1, 1}}, 1, Locations::kWide}, type, pass};
}

}  // namespace deformkit::testing
