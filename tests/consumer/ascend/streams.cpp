// A sample that includes the operator's header without its folder, overlaps two streams with events, times them, asks for
// deterministic results, and passes an index tensor with the end of the last level.
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnn_multi_scale_deformable_attn_function.h"

#define CHECK_RET(call)                                                                 \
    do {                                                                                \
        const int ret = (call);                                                         \
        if (ret != ACL_SUCCESS) {                                                       \
            const char *message = aclGetRecentErrMsg();                                 \
            std::printf("%s: %d, %s\n", #call, ret, message != nullptr ? message : ""); \
            return ret;                                                                 \
        }                                                                               \
    } while (0)

static aclTensor *Create(void *data, const std::vector<int64_t> &shape, aclDataType type) {
    return aclCreateTensor(shape.data(), shape.size(), type, nullptr, 0, ACL_FORMAT_ND, shape.data(), shape.size(), data);
}

int main() {
    CHECK_RET(aclInit(nullptr));
    CHECK_RET(aclrtSetDevice(0));
    CHECK_RET(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    aclrtStream copies = nullptr, work = nullptr;
    aclrtEvent start = nullptr, copied = nullptr, end = nullptr;
    CHECK_RET(aclrtCreateStream(&copies));
    CHECK_RET(aclrtCreateStream(&work));
    CHECK_RET(aclrtCreateEventExWithFlag(&start, ACL_EVENT_TIME_LINE));
    CHECK_RET(aclrtCreateEventWithFlag(&copied, ACL_EVENT_SYNC));
    CHECK_RET(aclrtCreateEvent(&end));

    // Two levels of 2 x 2 and 1 x 1 cells, eight channels that hold their level's number plus one, one query in each middle.
    const int64_t kChannels = 8, kKeys = 5;
    std::vector<float> host(kKeys * kChannels, 1.0f), output(kChannels);
    for (int64_t c = 0; c < kChannels; c++) {
        host[4 * kChannels + c] = 2.0f;
    }
    std::vector<int64_t> shapes = {2, 2, 1, 1}, starts = {0, 4, 5};
    std::vector<float> locations(4, 0.5f), weights = {0.25f, 0.5f};
    void *value = nullptr;
    const size_t bytes = host.size() * sizeof(float);
    CHECK_RET(aclrtMalloc(&value, bytes, ACL_MEM_MALLOC_NORMAL_ONLY));

    aclTensor *tensors[] = {Create(value, {1, kKeys, 1, kChannels}, ACL_FLOAT),
                            Create(shapes.data(), {2, 2}, ACL_INT64),
                            Create(starts.data(), {3}, ACL_INT64),
                            Create(locations.data(), {1, 1, 1, 2, 1, 2}, ACL_FLOAT),
                            Create(weights.data(), {1, 1, 1, 2, 1}, ACL_FLOAT),
                            Create(output.data(), {1, 1, kChannels}, ACL_FLOAT)};
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    CHECK_RET(aclnnMultiScaleDeformableAttnFunctionGetWorkspaceSize(tensors[0], tensors[1], tensors[2], tensors[3], tensors[4],
                                                                    tensors[5], &workspaceSize, &executor));
    std::vector<char> workspace(workspaceSize + 1);

    CHECK_RET(aclrtRecordEvent(start, copies));
    CHECK_RET(aclrtMemcpyAsync(value, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE, copies));
    CHECK_RET(aclrtRecordEvent(copied, copies));
    CHECK_RET(aclrtStreamWaitEvent(work, copied));
    CHECK_RET(aclnnMultiScaleDeformableAttnFunction(workspace.data(), workspaceSize, executor, work));
    CHECK_RET(aclrtRecordEvent(end, work));
    CHECK_RET(aclrtSynchronizeEvent(end));
    float ms = -1;
    CHECK_RET(aclrtEventElapsedTime(&ms, start, end));
    std::printf("output: %g after %g ms\n", output[0], ms);

    for (aclTensor *tensor : tensors) {
        CHECK_RET(aclDestroyTensor(tensor));
    }
    for (aclrtEvent event : {start, copied, end}) {
        CHECK_RET(aclrtDestroyEvent(event));
    }
    CHECK_RET(aclrtFree(value));
    CHECK_RET(aclrtDestroyStream(copies));
    CHECK_RET(aclrtDestroyStream(work));
    CHECK_RET(aclrtResetDevice(0));
    CHECK_RET(aclFinalize());
    return output[0] == 0.25f * 1.0f + 0.5f * 2.0f && ms > 0 ? 0 : 1;
}
