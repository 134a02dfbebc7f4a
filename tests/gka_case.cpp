#include "tests/gka_case.h"

#include <algorithm>
#include <cmath>

namespace deformkit::testing {

namespace {

std::vector<double> numbers(const std::vector<float> &floats, Type type) {
    std::vector<double> result;
    for (float x : floats) {
        result.push_back(nearest(type, x));
    }
    return result;
}

}  // namespace

GkaCase::GkaCase(const MsdaWorkload &w, Type type, Pass pass, uint32_t seed) : type_(type), pass_(pass) {
    const MsdaInputs inputs = make_gka_inputs(w, seed);
    in = {w.batch,
          w.keys(),
          w.heads,
          w.channels,
          w.queries,
          static_cast<int64_t>(w.levels.size()),
          w.points,
          numbers(inputs.value, type),
          numbers(inputs.sampling_locations, Type::kF32),
          numbers(inputs.attention_weights, type),
          inputs.spatial_shapes,
          inputs.level_start_index,
          {}};
    if (pass == Pass::kBackward) {
        for (int64_t i = 0; i < in.B * in.Q * in.M * in.D; i++) {
            in.grad_output.push_back(nearest(type, std::sin(0.7 * static_cast<double>(i) + seed)));
        }
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
    Operand locations{"sampling_locations", location_dtype_, {in.B, in.Q, in.M, in.L, in.P, 2}, {}, {}};
    locations.numbers = stored_locations();
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
        all.push_back({"output", number, rows, {}, {}, true});
        return all;
    }
    all.push_back({"grad_output", number, rows, in.grad_output, {}});
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

std::vector<Expected> GkaCase::expected() const {
    GkaReferenceInputs stored = in;
    for (std::vector<double> *all : {&stored.value, &stored.weights, &stored.grad_output}) {
        for (double &number : *all) {
            number = nearest(type_, number);
        }
    }
    stored.locations = stored_locations();
    const double rounding = rounding_of_arithmetic(type_) * (type_ == Type::kF64 ? 2 : 1);
    const auto of = [](const Bounded &b) { return Expected{b.values, b.tolerances}; };
    if (pass_ == Pass::kForward) {
        return {of(gka_forward_reference(stored, rounding))};
    }
    const GkaGradients g = gka_backward_reference(stored, rounding);
    return {of(g.value), of(g.weights)};
}

deformkit_status try_gka(GkaCase::Pass pass, Type type) {
    const GkaCase smallest({"", 1, 1, 1, 1, {{1, 1}}, 1, Locations::kWide}, type, pass);
    const ProblemTensors tensors(smallest);
    return tensors.call();
}

void for_each_gka_variant(GkaCase::Pass pass, const std::string &suite, const std::string &name, const VariantTest::Body &body,
                          const std::string &type) {
    for_each_variant(
        "gka", pass == GkaCase::Pass::kForward ? "forward" : "backward_value", suite, name,
        [=](Type of) { return try_gka(pass, of); }, body, type);
}

}  // namespace deformkit::testing
