#include <cstdio>
#include <iostream>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_multi_scale_deformable_attention_grad.h"

#define CHECK_RET(call)                                                                 \
    do {                                                                                \
        const int ret = (call);                                                         \
        if (ret != ACL_SUCCESS) {                                                       \
            const char *message = aclGetRecentErrMsg();                                 \
            std::printf("%s: %d, %s\n", #call, ret, message != nullptr ? message : ""); \
            return ret;                                                                 \
        }                                                                               \
    } while (0)

// A dense tensor in device memory.
struct DeviceTensor {
    void *data = nullptr;
    aclTensor *tensor = nullptr;
};

template <typename T>
int CreateTensor(const std::vector<T> &host, const std::vector<int64_t> &shape, aclDataType type, DeviceTensor *result) {
    const size_t bytes = host.size() * sizeof(T);
    CHECK_RET(aclrtMalloc(&result->data, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK_RET(aclrtMemcpy(result->data, bytes, host.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    std::vector<int64_t> strides(shape.size(), 1);
    for (size_t i = shape.size() - 1; i > 0; i--) {
        strides[i - 1] = strides[i] * shape[i];
    }
    result->tensor = aclCreateTensor(shape.data(), shape.size(), type, strides.data(), 0, aclFormat::ACL_FORMAT_ND,
                                     shape.data(), shape.size(), result->data);
    return result->tensor != nullptr ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM;
}

int CopyBack(const DeviceTensor &from, std::vector<float> *host) {
    const size_t bytes = host->size() * sizeof(float);
    CHECK_RET(aclrtMemcpy(host->data(), bytes, from.data, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    return ACL_SUCCESS;
}

int main() {
    // One level of 4 x 4 cells, one head of eight channels, 32 queries that look at the middle of the map. A cell holds its
    // column, so that what is sampled there is 1.5.
    const int64_t kHeight = 4, kWidth = 4, kKeys = kHeight * kWidth, kChannels = 8, kQueries = 32;
    std::vector<float> value(kKeys * kChannels);
    for (int64_t key = 0; key < kKeys; key++) {
        for (int64_t c = 0; c < kChannels; c++) {
            value[key * kChannels + c] = static_cast<float>(key % kWidth);
        }
    }
    const std::vector<int64_t> spatialShape = {kHeight, kWidth}, levelStartIndex = {0};
    const std::vector<float> location(kQueries * 2, 0.5f), attnWeight(kQueries, 0.25f), gradOutput(kQueries * kChannels, 1.0f);
    std::vector<float> gradValue(value.size()), gradLocation(location.size()), gradAttnWeight(attnWeight.size());

    const int32_t deviceId = 0;
    aclrtStream stream = nullptr;
    CHECK_RET(aclInit(nullptr));
    CHECK_RET(aclrtSetDevice(deviceId));
    CHECK_RET(aclrtCreateStream(&stream));

    const std::vector<int64_t> valueShape = {1, kKeys, 1, kChannels}, locationShape = {1, kQueries, 1, 1, 1, 2};
    const std::vector<int64_t> weightShape = {1, kQueries, 1, 1, 1}, outputShape = {1, kQueries, kChannels};
    DeviceTensor t[9];
    CHECK_RET(CreateTensor(value, valueShape, aclDataType::ACL_FLOAT, &t[0]));
    CHECK_RET(CreateTensor(spatialShape, {1, 2}, aclDataType::ACL_INT64, &t[1]));
    CHECK_RET(CreateTensor(levelStartIndex, {1}, aclDataType::ACL_INT64, &t[2]));
    CHECK_RET(CreateTensor(location, locationShape, aclDataType::ACL_FLOAT, &t[3]));
    CHECK_RET(CreateTensor(attnWeight, weightShape, aclDataType::ACL_FLOAT, &t[4]));
    CHECK_RET(CreateTensor(gradOutput, outputShape, aclDataType::ACL_FLOAT, &t[5]));
    CHECK_RET(CreateTensor(gradValue, valueShape, aclDataType::ACL_FLOAT, &t[6]));
    CHECK_RET(CreateTensor(gradLocation, locationShape, aclDataType::ACL_FLOAT, &t[7]));
    CHECK_RET(CreateTensor(gradAttnWeight, weightShape, aclDataType::ACL_FLOAT, &t[8]));

    // First phase: how much memory does the call need?
    uint64_t workspaceSize = 0;
    aclOpExecutor *executor = nullptr;
    CHECK_RET(aclnnMultiScaleDeformableAttentionGradGetWorkspaceSize(t[0].tensor, t[1].tensor, t[2].tensor, t[3].tensor,
                                                                     t[4].tensor, t[5].tensor, t[6].tensor, t[7].tensor,
                                                                     t[8].tensor, &workspaceSize, &executor));
    void *workspace = nullptr;
    if (workspaceSize > 0) {
        CHECK_RET(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    // Second phase: the call is queued, and runs while this thread goes on.
    CHECK_RET(aclnnMultiScaleDeformableAttentionGrad(workspace, workspaceSize, executor, stream));
    CHECK_RET(aclrtSynchronizeStream(stream));

    CHECK_RET(CopyBack(t[6], &gradValue));
    CHECK_RET(CopyBack(t[7], &gradLocation));
    CHECK_RET(CopyBack(t[8], &gradAttnWeight));
    std::cout << "gradValue of a cell in the middle: " << gradValue[5 * kChannels] << ", in the corner: " << gradValue[0]
              << "\n"
              << "gradLocation: " << gradLocation[0] << ", " << gradLocation[1] << "\n"
              << "gradAttnWeight: " << gradAttnWeight[0] << "\n";

    for (const DeviceTensor &each : t) {
        aclDestroyTensor(each.tensor);
        aclrtFree(each.data);
    }
    if (workspaceSize > 0) {
        aclrtFree(workspace);
    }
    CHECK_RET(aclrtDestroyStream(stream));
    CHECK_RET(aclrtResetDevice(deviceId));
    CHECK_RET(aclFinalize());

    // A cell in the middle has a quarter of each sample, which weighs 0.25: 32 / 16. Eight channels of 1.5 make 12. A step of
    // one map's width to the right gains 4 columns in each of eight channels, weighted 0.25; a step down nothing.
    const bool right = gradValue[5 * kChannels] == 2.0f && gradValue[0] == 0.0f && gradLocation[0] == 8.0f &&
                       gradLocation[1] == 0.0f && gradAttnWeight[0] == 12.0f;
    return right ? 0 : 1;
}
