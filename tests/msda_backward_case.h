// One call of MSDA backward in any storage type: its inputs, how they lie in memory, and what it has to give.
#pragma once

#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/msda_case.h"
#include "tests/support/reference_backward.h"
#include "tests/support/types.h"
#include "tests/variants.h"

namespace deformkit::testing {

/// Extents as in the public header; data dense, row-major, all numbers of `type`.
struct MsdaBackwardCase : MsdaBackwardInputs {
    Type type;

    std::vector<int64_t> value_shape() const { return {B, K, M, D}; }
    std::vector<int64_t> shapes_shape() const { return {L, 2}; }
    std::vector<int64_t> starts_shape() const { return {L}; }
    std::vector<int64_t> locations_shape() const { return {B, Q, M, L, P, 2}; }
    std::vector<int64_t> weights_shape() const { return {B, Q, M, L, P}; }
    std::vector<int64_t> grad_shape() const { return {B, Q, M * D}; }
    std::vector<int64_t> grad_by_head_shape() const { return {B, Q, M, D}; }
    int64_t samples() const { return B * Q * M * L * P; }
    bool is_trivial() const { return samples() * K * D == 0; }  ///< nothing to compute
};

/// To the nearest numbers of the type.
std::vector<double> rounded(Type type, std::vector<double> numbers);

MsdaBackwardCase make_backward_case(const MsdaWorkload &workload, Type type, uint32_t seed = 1);

/// The same maps, and `queries` of the queries, evenly spread.
MsdaBackwardCase take_queries(const MsdaBackwardCase &from, int64_t queries);

/// Moves locations away from the lines between cells, where arithmetic may disagree on which cells a sample touches.
void avoid_ties(MsdaBackwardCase &c);

struct MsdaBackwardLayout {
    Layout value, shapes, starts, locations, weights, grad_output, grad_value, grad_locations, grad_weights;
    int index_bits = 64;
    bool grad_by_head = false;  ///< grad_output [B, Q, M, D] instead of [B, Q, M * D]

    static MsdaBackwardLayout guarded(Guard guard);
    std::vector<Layout *> all();
};

/// Which gradients a call asks for.
struct Wanted {
    bool value = true, locations = true, weights = true;
};

/// All subsets, the empty one included.
std::vector<Wanted> all_subsets();

/// Dense; what was not wanted is empty.
struct MsdaGradients {
    std::vector<double> value, locations, weights;
};

/// The nine tensors in guarded memory; the inputs cannot be written to.
struct MsdaBackwardTensors {
    Type type;
    GuardedTensor value, shapes, starts, locations, weights, grad_output, grad_value, grad_locations, grad_weights;

    explicit MsdaBackwardTensors(const MsdaBackwardCase &c, const MsdaBackwardLayout &layout = {});
    deformkit_status call(const Wanted &wanted = {});
    MsdaGradients gradients(const Wanted &wanted = {}) const;
    std::vector<GuardedTensor *> all();
    std::vector<const GuardedTensor *> outputs() const { return {&grad_value, &grad_locations, &grad_weights}; }
};

/// What is left of a case when axes are expanded: elements that share memory are equal.
MsdaBackwardCase as_stored(const MsdaBackwardCase &c, const MsdaBackwardLayout &layout);

/// Calls the library. Fails the test if the call fails, writes outside the wanted gradients or not all of them.
MsdaGradients run(const MsdaBackwardCase &c, const MsdaBackwardLayout &layout = {}, const Wanted &wanted = {});

/// Whether each gradient is as close to the float64 reference as the type's arithmetic has to bring it.
::testing::AssertionResult matches_reference(const MsdaBackwardCase &c, const MsdaGradients &gradients);

/// Whether gradients differ from zero for at least such shares of the cells and the samples: else a comparison would prove
/// nothing.
::testing::AssertionResult is_substantial(const MsdaGradients &gradients, double some_cells = 0.05, double some_samples = 0.4);

/// Bit for bit, NaN included.
::testing::AssertionResult same_bits(const MsdaGradients &a, const MsdaGradients &b);

/// Forces a variant for the length of a test; skips the test where the machine lacks it.
class BackwardVariantTest : public ::testing::Test {
public:
    using Body = std::function<void(const Variant &, Type)>;
    BackwardVariantTest(const Variant &variant, Body body) : variant_(variant), body_(std::move(body)) {}

    void SetUp() override;
    void TestBody() override { body_(variant_, variant_.type()); }
    void TearDown() override;

private:
    Variant variant_;
    Body body_;
};

/// Adds the test `suite`.<variant's name>/`name` for every row of backward_value, the kernel that stands for the operator:
/// calls in it ask for all gradients, and a row of backward_samples of the same type and target gives the others. With `type`
/// for the rows of that type.
void for_each_msda_backward_variant(const std::string &suite, const std::string &name, const BackwardVariantTest::Body &body,
                                    const std::string &type = "");

/// The smallest call there is, to find out whether the chosen target works here.
deformkit_status try_msda_backward(Type type);

}  // namespace deformkit::testing
