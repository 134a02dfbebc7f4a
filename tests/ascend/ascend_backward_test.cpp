// MSDA backward through both phases: the results are those of the public interface.
#include <cstring>
#include <vector>

#include "tests/ascend/backward.h"
#include "tests/ascend/forward.h"

namespace deformkit::testing {
namespace {

// Within the interface's limits: channels a multiple of 8.
const MsdaWorkload kSmall = {"", 2, 20, 3, 24, {{7, 5}, {3, 4}}, 3, Locations::kWide};
const MsdaWorkload kManySamples = {"", 1, 5000, 2, 16, {{20, 30}, {10, 15}}, 4, Locations::kNear};

class AscendBackward : public AclTest {
protected:
    static void expect_same_as_library(const MsdaCase &c, const Layouts &layouts) {
        const ProblemTensors tensors(c, layouts);
        ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttentionGrad, AclBackward(tensors).prepare()), ACL_SUCCESS)
            << recent_message();
        const Outputs expected = run(c, layouts);
        EXPECT_TRUE(same_bits(outputs_of(tensors), expected));
        EXPECT_TRUE(is_substantial(expected, usual_substance(c)));
    }
};

TEST_F(AscendBackward, SameBitsAsTheLibrary) {
    for (const Type type : {Type::kF32, Type::kF16, Type::kBf16}) {
        for (const MsdaWorkload &workload : {kSmall, crowded(kSmall), kManySamples}) {
            const MsdaCase c(workload, type, Pass::kBackward);
            for (const bool by_head : {false, true}) {
                Layouts layouts;
                layouts.index_bits = by_head ? 32 : 64;
                layouts.split = by_head;
                expect_same_as_library(c, layouts);
            }
        }
    }
}

TEST_F(AscendBackward, ViewsWithStridesAndOffset) {
    Layouts layouts;
    layouts.of["value"].order = {3, 1, 0, 2};
    layouts.of["value"].reversed = {false, true, false, true};
    layouts.of["sampling_locations"].order = {5, 4, 3, 2, 1, 0};
    layouts.of["attention_weights"].step = {1, 2, 1, 1, 1};
    layouts.split = true;
    layouts.of["grad_output"].order = {0, 3, 2, 1};
    layouts.of["grad_value"].order = {0, 3, 2, 1};
    layouts.of["grad_value"].reversed = {true, false, false, false};
    layouts.of["grad_sampling_locations"].step = {1, 1, 1, 1, 1, 3};
    layouts.of["grad_attention_weights"].order = {4, 3, 2, 1, 0};
    expect_same_as_library({kSmall, Type::kF32, Pass::kBackward}, layouts);
    expect_same_as_library({crowded(kSmall), Type::kF32, Pass::kBackward}, layouts);
}

// One map of ones with the size of the other's bits: see docs/ascend.md.
TEST_F(AscendBackward, OneCellWithFloatBitsForASize) {
    const MsdaCase c = one_cell_with_float_bits_for_a_size(Pass::kBackward);
    for (const Guard guard : {Guard::kAfter, Guard::kBefore}) {
        Layouts layouts = guarded(guard);
        layouts.index_bits = 32;
        layouts.split = false;
        const ProblemTensors tensors(c, layouts);
        ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttentionGrad, AclBackward(tensors).prepare(), guard), ACL_SUCCESS)
            << recent_message();
        const Outputs gradients = outputs_of(tensors);
        const std::vector<double> &rows = c.in.grad_output, &got = gradients[0];
        std::vector<double> grad_value(8, 0.0);
        for (size_t i = 0; i < rows.size(); i++) {
            grad_value[i % 8] += 0.25 * rows[i];
        }
        for (int d = 0; d < 8; d++) {
            EXPECT_NEAR(got[d], grad_value[d], 1e-4f);
        }
        for (int q = 0; q < 32; q++) {
            double sum = 0;
            for (int d = 0; d < 8; d++) {
                sum += rows[8 * q + d];
            }
            EXPECT_NEAR(gradients[2][q], 0.25f * sum, 1e-4f);
        }
    }
}

// Whatever is where indices belong, nothing beside the tensors is touched, and the results are those of the library.
TEST_F(AscendBackward, IndicesThatMakeNoSense) {
    MsdaCase c(kManySamples, Type::kF32, Pass::kBackward);
    const std::vector<std::vector<int64_t>> shapes = {{1065353216, 1065353216, 1065353216, 1065353216},
                                                      {20, 1106247680, 1092616192, 15},
                                                      {-1, -1, -5, 3},
                                                      {2147483647, 2147483647, 65536, 65536},
                                                      {1, 1, 1, 1},
                                                      {25, 30, 25, 30}};
    const std::vector<std::vector<int64_t>> starts = {{0, 600}, {0, 0}, {-3, 749}, {2147483647, -2147483648LL}};
    for (size_t s = 0; s < shapes.size(); s++) {
        for (const auto &start : starts) {
            c.in.shapes = shapes[s];
            c.in.starts = start;
            SCOPED_TRACE(::testing::Message() << "shapes " << s << ", first keys " << start[0] << " and " << start[1]);
            Layouts layouts;
            layouts.index_bits = 32;
            const ProblemTensors tensors(c, layouts);
            ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttentionGrad, AclBackward(tensors).prepare()), ACL_SUCCESS)
                << recent_message();
            EXPECT_TRUE(same_bits(outputs_of(tensors), run(c, layouts)));
        }
    }
}

TEST_F(AscendBackward, NothingToCompute) {
    MsdaWorkload no_queries = kSmall, no_batch = kSmall, no_points = kSmall, no_keys = kSmall, no_levels = kSmall;
    no_queries.queries = 0;
    no_batch.batch = 0;
    no_points.points = 0;
    no_keys.levels = {{0, 0}};
    no_levels.levels = {};
    for (const MsdaWorkload &workload : {no_queries, no_batch, no_points, no_keys, no_levels}) {
        const MsdaCase c(workload, Type::kF32, Pass::kBackward);
        const ProblemTensors tensors(c);
        const Prepared prepared = AclBackward(tensors).prepare();
        ASSERT_EQ(prepared.status, ACL_SUCCESS) << recent_message();
        EXPECT_EQ(prepared.workspace_bytes, 0u);
        ASSERT_EQ(aclnnMultiScaleDeformableAttentionGrad(nullptr, 0, prepared.executor, nullptr), ACL_SUCCESS);
        ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
        EXPECT_TRUE(all_zero(outputs_of(tensors)));
    }
}

TEST_F(AscendBackward, ExecutorsOfTheOtherOperatorAreRefused) {
    const MsdaCase f_case(kSmall, Type::kF32, Pass::kForward), b_case(kSmall, Type::kF32, Pass::kBackward);
    const ProblemTensors forward(f_case), backward(b_case);
    const Prepared f = AclForward(forward).prepare(), b = AclBackward(backward).prepare();
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttentionGrad, f), kInvalid);
    EXPECT_NE(recent_message().find("aclnnMultiScaleDeformableAttnFunction"), std::string::npos);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, b), kInvalid);
    EXPECT_TRUE(backward.outputs_untouched());
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, f), ACL_SUCCESS);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttentionGrad, b), ACL_SUCCESS);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttentionGrad, b), kInvalid) << "used before";
}

// Forward and backward in one queue: the gradient of what the forward has just written.
TEST_F(AscendBackward, AfterTheForwardOnTheSameStream) {
    const MsdaCase f_case(kSmall, Type::kF32, Pass::kForward), b_case(kSmall, Type::kF32, Pass::kBackward);
    const ProblemTensors forward(f_case), chained(b_case);
    ProblemTensors expected(b_case);
    const AclForward f(forward);
    const AclBackward b(chained);
    Prepared second;
    second.status = aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(
        b.value, b.shapes, b.starts, b.locations, b.weights, f.output, b.grad_value, b.grad_locations, b.grad_weights,
        &second.workspace_bytes, &second.executor);
    const Prepared first = f.prepare();
    ASSERT_EQ(first.status, ACL_SUCCESS);
    ASSERT_EQ(second.status, ACL_SUCCESS) << recent_message();
    std::vector<uint8_t> workspace(std::max(first.workspace_bytes, second.workspace_bytes));  // one after the other
    aclrtStream stream = nullptr;
    ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
    ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(workspace.data(), workspace.size(), first.executor, stream), ACL_SUCCESS);
    ASSERT_EQ(aclnnMultiScaleDeformableAttentionGrad(workspace.data(), workspace.size(), second.executor, stream), ACL_SUCCESS);
    ASSERT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
    expected.arguments[5] = forward.arguments[5];
    ASSERT_EQ(expected.call(), DEFORMKIT_OK);
    EXPECT_TRUE(same_bits(outputs_of(chained), outputs_of(expected)));
}

}  // namespace
}  // namespace deformkit::testing
