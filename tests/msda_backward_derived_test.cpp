// MSDA backward against the gradients that Halide's automatic differentiation derives from the algorithm of the forward
// (derived/msda_gradient_generator.cpp), in float64.
#include <HalideBuffer.h>

#include <cfloat>

#include "msda_gradient_derived.h"
#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

MsdaGradients derived(MsdaBackwardCase &c) {
    const auto B = static_cast<int>(c.B), K = static_cast<int>(c.K), M = static_cast<int>(c.M), D = static_cast<int>(c.D);
    const auto Q = static_cast<int>(c.Q), S = static_cast<int>(c.L * c.P);
    std::vector<int32_t> table;
    for (int row = 0; row < 3; row++) {
        for (int64_t f = 0; f < c.M * c.L * c.P; f++) {
            const int64_t l = f / c.P % c.L;
            table.push_back(static_cast<int32_t>(row == 0 ? c.shapes[2 * l + 1] : row == 1 ? c.shapes[2 * l] : c.starts[l]));
        }
    }
    MsdaGradients g = {std::vector<double>(c.value.size(), -1), std::vector<double>(c.locations.size(), -1),
                       std::vector<double>(c.weights.size(), -1)};
    using Halide::Runtime::Buffer;
    Buffer<double> value(c.value.data(), D, M, K, B), locations(c.locations.data(), 2, M * S, Q, B);
    Buffer<double> weights(c.weights.data(), M * S, Q, B), grad_output(c.grad_output.data(), D, M, Q, B);
    Buffer<double> grad_value(g.value.data(), D, M, K, B), grad_locations(g.locations.data(), 2, M * S, Q, B);
    Buffer<double> grad_weights(g.weights.data(), M * S, Q, B);
    Buffer<int32_t> level_table(table.data(), M * S, 3);
    EXPECT_EQ(
        msda_gradient_derived(value, level_table, locations, weights, grad_output, S, grad_value, grad_locations, grad_weights),
        0);
    return g;
}

const std::vector<MsdaWorkload> &workloads() {
    static const std::vector<MsdaWorkload> all = [] {
        std::vector<MsdaWorkload> workloads;
        for (const char *name : {"one_cell", "two_cells", "channels_3", "channels_16", "rows_and_columns", "samples_3x4",
                                 "samples_5x3", "small_level_first", "empty_level_between"}) {
            workloads.push_back(awkward_workload(name));
        }
        workloads.push_back(crowded(awkward_workload("channels_7")));
        return workloads;
    }();
    return all;
}

/// Away from the lines between cells, with a part of the samples outside.
MsdaBackwardCase make(const MsdaWorkload &workload, Type type) {
    MsdaBackwardCase c = make_backward_case(workload, type);
    avoid_ties(c);
    for (size_t s = 0; s < c.locations.size(); s += 14) {
        c.locations[s] = 1.75;
    }
    return c;
}

TEST(DerivedReference, AgreesWithTheReference) {
    for (const MsdaWorkload &workload : workloads()) {
        for (Type type : {Type::kF64, Type::kF32}) {
            SCOPED_TRACE(::testing::Message() << workload.name << ", inputs of " << 8 * size_of(type) << " bits");
            MsdaBackwardCase c = make(workload, type);
            c.type = Type::kF64;
            const MsdaGradients gradients = derived(c);
            EXPECT_TRUE(matches_reference(c, gradients));
            EXPECT_TRUE(is_substantial(gradients));
        }
    }
}

/// Levels that share cells, reach beyond the tensor, or lie before it.
TEST(DerivedReference, AgreesWithTheReferenceOnSharedCells) {
    MsdaBackwardCase c = make({"", 2, 40, 2, 5, {{3, 4}, {3, 4}, {2, 2}, {5, 5}}, 3, Locations::kWide}, Type::kF64);
    c.starts = {4, 4, 40, -7};
    EXPECT_TRUE(matches_reference(c, derived(c)));
}

void check(const MsdaWorkload &workload, Type type) {
    MsdaBackwardCase c = make(workload, type);
    const MsdaGradients library = run(c);
    const MsdaGradients wanted = derived(c);
    MsdaBackwardExpected expected = msda_backward_reference(c, type);
    const auto compare = [&](const char *name, Expected &from, const std::vector<double> &want,
                             const std::vector<double> &got) {
        from.value = want;  // what is left of the reference is its tolerance
        for (int64_t i = 0; i < static_cast<int64_t>(want.size()); i++) {
            EXPECT_TRUE(from.allows(i, got[i], type)) << name << "[" << i << "] is " << got[i] << ", derived " << want[i];
        }
    };
    compare("grad_value", expected.value, wanted.value, library.value);
    compare("grad_sampling_locations", expected.locations, wanted.locations, library.locations);
    compare("grad_attention_weights", expected.weights, wanted.weights, library.weights);
}

const bool registered = [] {
    for (const MsdaWorkload &workload : workloads()) {
        for_each_msda_backward_variant("Derived", workload.name, [&](const Variant &, Type type) { check(workload, type); });
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
