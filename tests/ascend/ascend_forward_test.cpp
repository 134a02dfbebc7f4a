// MSDA forward through both phases: the results are those of the public interface.
#include <algorithm>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "tests/ascend/forward.h"

namespace deformkit::testing {
namespace {

// Within the interface's limits: channels a multiple of 8.
const MsdaWorkload kSmall = {"", 2, 20, 3, 24, {{7, 5}, {3, 4}}, 3, Locations::kWide};

class AscendForward : public AclTest {
protected:
    static void expect_same_as_library(const MsdaCase &c, const Layouts &layouts) {
        const ProblemTensors tensors(c, layouts);
        EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare()), ACL_SUCCESS)
            << recent_message();
        EXPECT_EQ(tensors["output"].elements_in_poison(), 0);
        EXPECT_TRUE(tensors["output"].surroundings_intact());
        EXPECT_TRUE(same_bits(tensors.outputs(), run(c, layouts)));
    }
};

TEST_F(AscendForward, SameBitsAsTheLibrary) {
    for (const Type type : {Type::kF32, Type::kF16, Type::kBf16}) {
        const MsdaCase few(kSmall, type, Pass::kForward), encoder(crowded(kSmall), type, Pass::kForward);
        for (const MsdaCase &c : {few, encoder}) {
            for (const int index_bits : {32, 64}) {
                for (const bool by_head : {false, true}) {
                    Layouts layouts;
                    layouts.index_bits = index_bits;
                    layouts.split = by_head;
                    expect_same_as_library(c, layouts);
                }
            }
        }
    }
    const MsdaCase small(kSmall, Type::kF32, Pass::kForward);
    const Outputs outputs = run(small);
    EXPECT_TRUE(is_substantial(outputs, usual_substance(small)));
    EXPECT_TRUE(matches(small, outputs));
}

TEST_F(AscendForward, ViewsWithStridesAndOffset) {
    Layouts layouts;
    layouts.of["value"].order = {3, 1, 0, 2};
    layouts.of["value"].reversed = {false, true, false, true};
    layouts.of["spatial_shapes"].reversed = {true, false};
    layouts.of["level_start_index"].step = {3};
    layouts.of["sampling_locations"].order = {5, 4, 3, 2, 1, 0};
    layouts.of["attention_weights"].step = {1, 2, 1, 1, 1};
    layouts.of["attention_weights"].expanded = {true, false, false, false, false};
    layouts.split = true;
    layouts.of["output"].order = {0, 3, 2, 1};
    layouts.of["output"].reversed = {false, true, false, false};
    const MsdaCase c(kSmall, Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c, layouts);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare()), ACL_SUCCESS)
        << recent_message();
    EXPECT_TRUE(tensors["output"].surroundings_intact());
    EXPECT_TRUE(matches(as_stored(c, layouts), tensors.outputs()));
}

TEST_F(AscendForward, NothingToCompute) {
    MsdaWorkload no_queries = kSmall, no_batch = kSmall, no_points = kSmall, no_keys = kSmall, no_levels = kSmall;
    no_queries.queries = 0;
    no_batch.batch = 0;
    no_points.points = 0;
    no_keys.levels = {{0, 0}};
    no_levels.levels = {};
    for (const MsdaWorkload &workload : {no_queries, no_batch, no_points, no_keys, no_levels}) {
        const MsdaCase c(workload, Type::kF32, Pass::kForward);
        const ProblemTensors tensors(c);
        const Prepared prepared = AclForward(tensors).prepare();
        ASSERT_EQ(prepared.status, ACL_SUCCESS) << recent_message();
        EXPECT_EQ(prepared.workspace_bytes, 0u);
        ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(nullptr, 0, prepared.executor, nullptr), ACL_SUCCESS);
        ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
        EXPECT_TRUE(all_zero(tensors.outputs()));
    }
}

// A program that copies float data where indices belong: 1.0f is 1065353216 as an int32.
TEST_F(AscendForward, FloatBitsAsIndices) {
    MsdaCase c(kSmall, Type::kF32, Pass::kForward);
    const auto bits = [](float value) {
        int32_t result;
        std::memcpy(&result, &value, sizeof(result));
        return result;
    };
    const std::vector<std::vector<int64_t>> shapes = {{bits(1), bits(1), bits(1), bits(1)},
                                                      {bits(7), bits(5), bits(3), bits(4)},
                                                      {bits(0), bits(1), bits(-1), bits(-1)},
                                                      {1, bits(1), bits(1), 1},
                                                      {-1, -1, -5, 3},
                                                      {2147483647, 2147483647, 65536, 65536},
                                                      {-2147483648LL, -2147483648LL, 1, 2147483647}};
    const std::vector<std::vector<int64_t>> starts = {{0, 0}, {0, bits(35)}, {bits(-1), -3}, {2147483647, -2147483648LL}};
    for (size_t s = 0; s < shapes.size(); s++) {
        for (const auto &start : starts) {
            for (const Guard guard : {Guard::kAfter, Guard::kBefore}) {
                c.in.shapes = shapes[s];
                c.in.starts = start;
                Layouts layouts = guarded(guard);
                layouts.index_bits = 32;
                SCOPED_TRACE(::testing::Message() << "shapes " << s << ", first key " << start[0]);
                const ProblemTensors tensors(c, layouts);
                ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare(), guard), ACL_SUCCESS)
                    << recent_message();
                EXPECT_EQ(tensors["output"].elements_in_poison(), 0);
                EXPECT_TRUE(tensors["output"].surroundings_intact());
                EXPECT_TRUE(matches(c, tensors.outputs()));
            }
        }
    }
}

// What the published example of the forward operator sets up: one cell of ones, its size given as the bits of 1.0f, locations
// 0. On a map so large a location of 0 is a quarter in its first cell.
TEST_F(AscendForward, OneCellWithFloatBitsForASize) {
    const MsdaCase c = one_cell_with_float_bits_for_a_size(Pass::kForward);
    Layouts layouts;
    layouts.index_bits = 32;
    const ProblemTensors tensors(c, layouts);
    ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare()), ACL_SUCCESS);
    EXPECT_EQ(tensors.outputs()[0], std::vector<double>(256, 0.25));
}

// The indices count when the stream gets there, not when the call is prepared.
TEST_F(AscendForward, TensorsAreReadInTheOrderOfTheStream) {
    const MsdaCase c(kSmall, Type::kF32, Pass::kForward);
    const ProblemTensors given(c);
    std::vector<int64_t> shapes(4, -1), starts(2, -1);
    DLTensor late_shapes = *given.arguments[1], late_starts = *given.arguments[2];
    late_shapes.data = shapes.data();
    late_starts.data = starts.data();
    late_shapes.byte_offset = late_starts.byte_offset = 0;
    const AclForward tensors(given);
    Prepared p;
    {
        const AclTensor acl_shapes(late_shapes), acl_starts(late_starts);
        p.status = aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(tensors.value, acl_shapes, acl_starts,
                                                                         tensors.locations, tensors.weights, tensors.output,
                                                                         &p.workspace_bytes, &p.executor);
        // Tensors may go once the first phase has returned.
    }
    ASSERT_EQ(p.status, ACL_SUCCESS) << recent_message();
    aclrtStream stream = nullptr;
    ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
    void *workspace = nullptr;
    ASSERT_EQ(aclrtMalloc(&workspace, p.workspace_bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    ASSERT_EQ(aclrtMemcpyAsync(shapes.data(), 32, c.in.shapes.data(), 32, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_SUCCESS);
    ASSERT_EQ(aclrtMemcpyAsync(starts.data(), 16, c.in.starts.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_SUCCESS);
    ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(workspace, p.workspace_bytes, p.executor, stream), ACL_SUCCESS);
    std::vector<float> output(c.in.B * c.in.Q * c.in.M * c.in.D);
    ASSERT_EQ(aclrtMemcpyAsync(output.data(), output.size() * 4, given.arguments[5]->data, output.size() * 4,
                               ACL_MEMCPY_DEVICE_TO_HOST, stream),
              ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS) << recent_message();
    EXPECT_TRUE(matches(c, {{output.begin(), output.end()}}));
    EXPECT_EQ(aclrtFree(workspace), ACL_SUCCESS);
    EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
}

TEST_F(AscendForward, ManyThreadsWithStreamsOfTheirOwn) {
    const MsdaCase c(crowded(kSmall), Type::kF32, Pass::kForward);
    const Outputs expected = run(c);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&] {
            ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
            aclrtStream stream = nullptr;
            ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
            for (int i = 0; i < 10; i++) {
                const ProblemTensors tensors(c);
                const Prepared p = AclForward(tensors).prepare();
                ASSERT_EQ(p.status, ACL_SUCCESS);
                GuardedBuffer workspace(p.workspace_bytes, Guard::kAfter);
                ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(workspace.data(), p.workspace_bytes, p.executor, stream),
                          ACL_SUCCESS);
                ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS) << recent_message();
                ASSERT_TRUE(same_bits(tensors.outputs(), expected));
            }
            EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
            EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

TEST_F(AscendForward, AnExecutorServesOnce) {
    const MsdaCase c(kSmall, Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c);
    const Prepared p = AclForward(tensors).prepare();
    ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, p), ACL_SUCCESS);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, p), kInvalid);
    EXPECT_NE(recent_message().find("executor"), std::string::npos);
    EXPECT_EQ(aclSetAclOpExecutorRepeatable(p.executor), kInvalid);
    EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), kInvalid);

    const Prepared unused = AclForward(tensors).prepare();
    EXPECT_EQ(aclDestroyAclOpExecutor(unused.executor), ACL_SUCCESS);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, unused), kInvalid);
}

TEST_F(AscendForward, ARepeatableExecutorServesUntilItIsDestroyed) {
    const MsdaCase c(kSmall, Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c);
    const Prepared p = AclForward(tensors).prepare();
    ASSERT_EQ(p.status, ACL_SUCCESS);
    ASSERT_EQ(aclSetAclOpExecutorRepeatable(p.executor), ACL_SUCCESS);
    for (int i = 0; i < 3; i++) {
        tensors["output"].store_numbers(std::vector<double>(c.in.B * c.in.Q * c.in.M * c.in.D, -1));
        ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, p), ACL_SUCCESS);
        EXPECT_TRUE(matches(c, tensors.outputs()));
    }
    EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), ACL_SUCCESS);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, p), kInvalid);
}

TEST_F(AscendForward, RefusedSecondPhasesRunNothingAndKeepTheExecutor) {
    const MsdaCase c(kSmall, Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c);
    const Prepared p = AclForward(tensors).prepare();
    ASSERT_EQ(p.status, ACL_SUCCESS);
    ASSERT_GT(p.workspace_bytes, 0u);
    std::vector<uint8_t> workspace(p.workspace_bytes);
    const auto second_phase = [&](void *memory, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream) {
        return aclnnMultiScaleDeformableAttnFunction(memory, bytes, executor, stream);
    };
    EXPECT_EQ(second_phase(nullptr, p.workspace_bytes, p.executor, nullptr), kNullPointer);
    EXPECT_NE(recent_message().find("workspace: expected " + std::to_string(p.workspace_bytes)), std::string::npos);
    EXPECT_EQ(second_phase(workspace.data(), p.workspace_bytes - 1, p.executor, nullptr), kInvalid);
    EXPECT_NE(recent_message().find("workspaceSize"), std::string::npos);
    EXPECT_EQ(second_phase(workspace.data(), 0, p.executor, nullptr), kInvalid);
    EXPECT_EQ(second_phase(workspace.data(), p.workspace_bytes, nullptr, nullptr), kNullPointer);
    int no_executor = 0;
    EXPECT_EQ(second_phase(workspace.data(), p.workspace_bytes, reinterpret_cast<aclOpExecutor *>(&no_executor), nullptr),
              kInvalid);
    EXPECT_EQ(second_phase(workspace.data(), p.workspace_bytes, p.executor, &no_executor), kRuntimeError);
    EXPECT_NE(recent_message().find("stream"), std::string::npos);
    std::thread([&] {
        EXPECT_EQ(second_phase(workspace.data(), p.workspace_bytes, p.executor, nullptr), kRuntimeError)
            << "a thread without a device has no default stream";
    }).join();
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_TRUE(tensors["output"].all_poison());
    EXPECT_EQ(second_phase(workspace.data(), p.workspace_bytes, p.executor, nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_TRUE(matches(c, tensors.outputs()));
}

}  // namespace
}  // namespace deformkit::testing
