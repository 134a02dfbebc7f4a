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
    static void expect_same_as_library(const MsdaCase &c, const MsdaLayout &layout) {
        MsdaTensors tensors(c, layout);
        EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare()), ACL_SUCCESS)
            << recent_message();
        EXPECT_EQ(tensors.output.elements_in_poison(), 0);
        EXPECT_TRUE(tensors.output.surroundings_intact());
        EXPECT_TRUE(same_bits(tensors.output.load_numbers(), run(c, layout)));
    }
};

TEST_F(AscendForward, SameBitsAsTheLibrary) {
    for (const Type type : {Type::kF32, Type::kF16, Type::kBf16}) {
        const MsdaCase few = make_case(kSmall, type), encoder = make_case(crowded(kSmall), type);
        for (const MsdaCase &c : {few, encoder}) {
            for (const int index_bits : {32, 64}) {
                for (const bool by_head : {false, true}) {
                    MsdaLayout layout;
                    layout.index_bits = index_bits;
                    layout.output_by_head = by_head;
                    expect_same_as_library(c, layout);
                }
            }
        }
    }
    const MsdaCase small = make_case(kSmall);
    const std::vector<double> output = run(small);
    EXPECT_TRUE(is_substantial(output));
    EXPECT_TRUE(matches_reference(small, output));
}

TEST_F(AscendForward, ViewsWithStridesAndOffset) {
    MsdaLayout layout;
    layout.value.order = {3, 1, 0, 2};
    layout.value.reversed = {false, true, false, true};
    layout.shapes.reversed = {true, false};
    layout.starts.step = {3};
    layout.locations.order = {5, 4, 3, 2, 1, 0};
    layout.weights.step = {1, 2, 1, 1, 1};
    layout.weights.expanded = {true, false, false, false, false};
    layout.output_by_head = true;
    layout.output.order = {0, 3, 2, 1};
    layout.output.reversed = {false, true, false, false};
    MsdaTensors tensors(make_case(kSmall), layout);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare()), ACL_SUCCESS)
        << recent_message();
    EXPECT_TRUE(tensors.output.surroundings_intact());
    EXPECT_TRUE(matches_reference(as_stored(make_case(kSmall), layout), tensors.output.load_numbers()));
}

TEST_F(AscendForward, NothingToCompute) {
    MsdaWorkload no_queries = kSmall, no_batch = kSmall, no_points = kSmall, no_keys = kSmall, no_levels = kSmall;
    no_queries.queries = 0;
    no_batch.batch = 0;
    no_points.points = 0;
    no_keys.levels = {{0, 0}};
    no_levels.levels = {};
    for (const MsdaWorkload &workload : {no_queries, no_batch, no_points, no_keys, no_levels}) {
        MsdaTensors tensors(make_case(workload));
        const Prepared prepared = AclForward(tensors).prepare();
        ASSERT_EQ(prepared.status, ACL_SUCCESS) << recent_message();
        EXPECT_EQ(prepared.workspace_bytes, 0u);
        ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(nullptr, 0, prepared.executor, nullptr), ACL_SUCCESS);
        ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
        const std::vector<double> output = tensors.output.load_numbers();
        EXPECT_EQ(output, std::vector<double>(output.size(), 0.0));
    }
}

// A program that copies float data where indices belong: 1.0f is 1065353216 as an int32.
TEST_F(AscendForward, FloatBitsAsIndices) {
    MsdaCase c = make_case(kSmall);
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
                c.shapes = shapes[s];
                c.starts = start;
                MsdaLayout layout = MsdaLayout::guarded(guard);
                layout.index_bits = 32;
                SCOPED_TRACE(::testing::Message() << "shapes " << s << ", first key " << start[0]);
                MsdaTensors tensors(c, layout);
                ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare(), guard), ACL_SUCCESS)
                    << recent_message();
                EXPECT_EQ(tensors.output.elements_in_poison(), 0);
                EXPECT_TRUE(tensors.output.surroundings_intact());
                EXPECT_TRUE(matches_reference(c, tensors.output.load_numbers()));
            }
        }
    }
}

// What the published example of the forward operator sets up: one cell of ones, its size given as the bits of 1.0f, locations
// 0. On a map so large a location of 0 is a quarter in its first cell.
TEST_F(AscendForward, OneCellWithFloatBitsForASize) {
    const MsdaCase c = one_cell_with_float_bits_for_a_size();
    MsdaLayout layout;
    layout.index_bits = 32;
    MsdaTensors tensors(c, layout);
    ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare()), ACL_SUCCESS);
    EXPECT_EQ(tensors.output.load_numbers(), std::vector<double>(256, 0.25));
}

// The indices count when the stream gets there, not when the call is prepared.
TEST_F(AscendForward, TensorsAreReadInTheOrderOfTheStream) {
    const MsdaCase c = make_case(kSmall);
    MsdaTensors given(c);
    std::vector<int64_t> shapes(4, -1), starts(2, -1);
    DLTensor late_shapes = *given.shapes.dl(), late_starts = *given.starts.dl();
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
    ASSERT_EQ(aclrtMemcpyAsync(shapes.data(), 32, c.shapes.data(), 32, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_SUCCESS);
    ASSERT_EQ(aclrtMemcpyAsync(starts.data(), 16, c.starts.data(), 16, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_SUCCESS);
    ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(workspace, p.workspace_bytes, p.executor, stream), ACL_SUCCESS);
    std::vector<float> output(c.B * c.Q * c.M * c.D);
    ASSERT_EQ(aclrtMemcpyAsync(output.data(), output.size() * 4, given.output.dl()->data, output.size() * 4,
                               ACL_MEMCPY_DEVICE_TO_HOST, stream),
              ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS) << recent_message();
    EXPECT_TRUE(matches_reference(c, std::vector<double>(output.begin(), output.end())));
    EXPECT_EQ(aclrtFree(workspace), ACL_SUCCESS);
    EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
}

TEST_F(AscendForward, ManyThreadsWithStreamsOfTheirOwn) {
    const MsdaCase c = make_case(crowded(kSmall));
    const std::vector<double> expected = run(c);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&] {
            ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
            aclrtStream stream = nullptr;
            ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
            for (int i = 0; i < 10; i++) {
                MsdaTensors tensors(c);
                const Prepared p = AclForward(tensors).prepare();
                ASSERT_EQ(p.status, ACL_SUCCESS);
                GuardedBuffer workspace(p.workspace_bytes, Guard::kAfter);
                ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(workspace.data(), p.workspace_bytes, p.executor, stream),
                          ACL_SUCCESS);
                ASSERT_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS) << recent_message();
                ASSERT_TRUE(same_bits(tensors.output.load_numbers(), expected));
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
    const MsdaCase c = make_case(kSmall);
    MsdaTensors tensors(c);
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
    MsdaCase c = make_case(kSmall);
    MsdaTensors tensors(c);
    const Prepared p = AclForward(tensors).prepare();
    ASSERT_EQ(p.status, ACL_SUCCESS);
    ASSERT_EQ(aclSetAclOpExecutorRepeatable(p.executor), ACL_SUCCESS);
    for (int i = 0; i < 3; i++) {
        tensors.output.store_numbers(std::vector<double>(c.B * c.Q * c.M * c.D, -1));
        ASSERT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, p), ACL_SUCCESS);
        EXPECT_TRUE(matches_reference(c, tensors.output.load_numbers()));
    }
    EXPECT_EQ(aclDestroyAclOpExecutor(p.executor), ACL_SUCCESS);
    EXPECT_EQ(run_to_end(aclnnMultiScaleDeformableAttnFunction, p), kInvalid);
}

TEST_F(AscendForward, RefusedSecondPhasesRunNothingAndKeepTheExecutor) {
    const MsdaCase c = make_case(kSmall);
    MsdaTensors tensors(c);
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
    EXPECT_TRUE(tensors.output.all_poison());
    EXPECT_EQ(second_phase(workspace.data(), p.workspace_bytes, p.executor, nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_TRUE(matches_reference(c, tensors.output.load_numbers()));
}

}  // namespace
}  // namespace deformkit::testing
