// MSDA backward in float64 against finite differences of the library's own forward, as gradient checkers do it.
#include <cmath>

#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

/// sum of grad_output * output.
double loss(const MsdaBackwardCase &c) {
    MsdaBackwardTensors tensors(c);
    GuardedTensor output(dtype_of(c.type), c.grad_shape());
    EXPECT_EQ(deformkit_msda_forward(tensors.value.dl(), tensors.shapes.dl(), tensors.starts.dl(), tensors.locations.dl(),
                                     tensors.weights.dl(), output.dl()),
              DEFORMKIT_OK)
        << deformkit_last_error();
    const std::vector<double> numbers = output.load<double>();
    double sum = 0;
    for (size_t i = 0; i < numbers.size(); i++) {
        sum += c.grad_output[i] * numbers[i];
    }
    return sum;
}

void check(const MsdaWorkload &workload, Type type) {
    MsdaBackwardCase c = make_backward_case(workload, type);
    if (!c.locations.empty()) {
        avoid_ties(c);
        for (size_t s = 0; s < c.locations.size(); s += 14) {
            c.locations[s] = 1.75;  // outside
        }
    }
    const MsdaGradients gradients = run(c);
    EXPECT_TRUE(matches_reference(c, gradients));
    EXPECT_TRUE(is_substantial(gradients));
    const auto differences = [&](std::vector<double> MsdaBackwardInputs::*input, const std::vector<double> &gradient,
                                 const char *name) {
        // Linear in one number at a time while no sample crosses a line between cells: only rounding limits the step.
        const double step = input == &MsdaBackwardInputs::locations ? 0x1p-9 : 0.5;
        const size_t every = std::max<size_t>(1, gradient.size() / 150) | 1;
        for (size_t i = 0; i < gradient.size(); i += every) {
            const double before = (c.*input)[i];
            (c.*input)[i] = before + step;
            const double above = loss(c);
            (c.*input)[i] = before - step;
            const double below = loss(c);
            (c.*input)[i] = before;
            EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-10 * (1 + std::fabs(gradient[i])))
                << name << "[" << i << "]";
        }
    };
    differences(&MsdaBackwardInputs::value, gradients.value, "value");
    differences(&MsdaBackwardInputs::locations, gradients.locations, "sampling_locations");
    differences(&MsdaBackwardInputs::weights, gradients.weights, "attention_weights");
}

const bool registered = [] {
    for (const char *name : {"channels_3", "channels_16", "channels_32", "samples_3x4", "samples_1x2", "rows_and_columns"}) {
        for (const MsdaWorkload &workload : {awkward_workload(name), crowded(awkward_workload(name))}) {
            const std::string test = (workload.queries == awkward_workload(name).queries ? "" : "crowded_") + workload.name;
            for_each_msda_backward_variant(
                "Gradcheck", test, [=](const Variant &, Type type) { check(workload, type); }, "f64");
        }
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
