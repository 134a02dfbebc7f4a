// MSDA backward against the gradients that Halide's automatic differentiation derives from the algorithm of the forward
// (derived/msda_gradient_generator.cpp), in float64.
#include <HalideBuffer.h>

#include "msda_gradient_derived.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

Outputs derived(MsdaCase &c) {
    MsdaReferenceInputs &in = c.in;
    const auto B = static_cast<int>(in.B), K = static_cast<int>(in.K), M = static_cast<int>(in.M), D = static_cast<int>(in.D);
    const auto Q = static_cast<int>(in.Q), S = static_cast<int>(in.L * in.P);
    std::vector<int32_t> table;
    for (int row = 0; row < 3; row++) {
        for (int64_t f = 0; f < in.M * in.L * in.P; f++) {
            const int64_t l = f / in.P % in.L;
            table.push_back(static_cast<int32_t>(row == 0 ? in.shapes[2 * l + 1] : row == 1 ? in.shapes[2 * l] : in.starts[l]));
        }
    }
    Outputs g = {std::vector<double>(in.value.size(), -1), std::vector<double>(in.locations.size(), -1),
                 std::vector<double>(in.weights.size(), -1)};
    using Halide::Runtime::Buffer;
    Buffer<double> value(in.value.data(), D, M, K, B), locations(in.locations.data(), 2, M * S, Q, B);
    Buffer<double> weights(in.weights.data(), M * S, Q, B), grad_output(in.grad_output.data(), D, M, Q, B);
    Buffer<double> grad_value(g[0].data(), D, M, K, B), grad_locations(g[1].data(), 2, M * S, Q, B);
    Buffer<double> grad_weights(g[2].data(), M * S, Q, B);
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
MsdaCase make(const MsdaWorkload &workload, Type type) {
    MsdaCase c(workload, type, Pass::kBackward);
    c.avoid_ties();
    for (size_t s = 0; s < c.in.locations.size(); s += 14) {
        c.in.locations[s] = 1.75;
    }
    return c;
}

/// The same numbers, in float64.
MsdaCase widened(const MsdaCase &c) {
    MsdaCase wide = MsdaCase::smallest(Type::kF64, Pass::kBackward);
    wide.in = c.in;
    return wide;
}

TEST(DerivedReference, AgreesWithTheReference) {
    for (const MsdaWorkload &workload : workloads()) {
        for (Type type : {Type::kF64, Type::kF32}) {
            SCOPED_TRACE(::testing::Message() << workload.name << ", inputs of " << 8 * size_of(type) << " bits");
            MsdaCase c = widened(make(workload, type));
            const Outputs gradients = derived(c);
            EXPECT_TRUE(matches(c, gradients));
            EXPECT_TRUE(is_substantial(gradients, usual_substance(c)));
        }
    }
}

/// Levels that share cells, reach beyond the tensor, or lie before it.
TEST(DerivedReference, AgreesWithTheReferenceOnSharedCells) {
    MsdaCase c = make({"", 2, 40, 2, 5, {{3, 4}, {3, 4}, {2, 2}, {5, 5}}, 3, Locations::kWide}, Type::kF64);
    c.in.starts = {4, 4, 40, -7};
    EXPECT_TRUE(matches(c, derived(c)));
}

void check(const MsdaWorkload &workload, Type type) {
    MsdaCase c = make(workload, type);
    const Outputs want = derived(c);
    std::vector<Expected> expected = c.expected();
    for (size_t o = 0; o < want.size(); o++) {
        expected[o].values = want[o];  // what is left of the reference is its tolerance
    }
    EXPECT_TRUE(matches(c, run(c), expected));
}

const bool registered = [] {
    for (const MsdaWorkload &workload : workloads()) {
        for_each_variant<MsdaCase>(Pass::kBackward, "MsdaDerived", workload.name,
                                   [&](const Variant &v) { check(workload, v.type()); });
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
