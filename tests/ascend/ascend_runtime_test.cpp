// The acl part: initialisation, device, contexts, memory, copies, streams.
#include <acl/acl.h>
#include <aclnn/aclnn_base.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "acl.h"

namespace deformkit::testing {
namespace {

TEST(AscendRuntime, ValuesAreTheVendors) {
    EXPECT_EQ(ACL_SUCCESS, 0);
    EXPECT_EQ(ACL_FLOAT, 0);
    EXPECT_EQ(ACL_FLOAT16, 1);
    EXPECT_EQ(ACL_INT32, 3);
    EXPECT_EQ(ACL_INT64, 9);
    EXPECT_EQ(ACL_BF16, 27);
    EXPECT_EQ(ACL_FORMAT_ND, 2);
    EXPECT_EQ(ACL_MEMCPY_HOST_TO_HOST, 0);
    EXPECT_EQ(ACL_MEMCPY_HOST_TO_DEVICE, 1);
    EXPECT_EQ(ACL_MEMCPY_DEVICE_TO_HOST, 2);
    EXPECT_EQ(ACL_MEMCPY_DEVICE_TO_DEVICE, 3);
    EXPECT_EQ(ACL_MEM_MALLOC_HUGE_FIRST, 0);
    EXPECT_EQ(ACL_MEM_MALLOC_NORMAL_ONLY, 2);
}

TEST(AscendRuntime, InitialisesOnceAtATime) {
    EXPECT_EQ(aclFinalize(), ACL_ERROR_UNINITIALIZE);
    EXPECT_EQ(aclInit(nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclInit(nullptr), ACL_ERROR_REPEAT_INITIALIZE);
    EXPECT_NE(recent_message(), "");
    EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
    EXPECT_EQ(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    EXPECT_EQ(aclInit(nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclFinalize(), ACL_SUCCESS);
    EXPECT_EQ(aclnnInit(nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclnnFinalize(), ACL_SUCCESS);
}

TEST(AscendRuntime, MessagesAreTakenAwayAndBelongToTheThread) {
    recent_message();
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
    EXPECT_NE(aclrtSetDevice(7), ACL_SUCCESS);
    std::thread([] { EXPECT_EQ(aclGetRecentErrMsg(), nullptr); }).join();
    EXPECT_NE(recent_message().find("got 7"), std::string::npos);
    EXPECT_EQ(aclGetRecentErrMsg(), nullptr);
}

TEST(AscendRuntime, OneDevice) {
    uint32_t count = 0;
    EXPECT_EQ(aclrtGetDeviceCount(&count), ACL_SUCCESS);
    EXPECT_EQ(count, 1u);
    int32_t id = -1;
    void *memory = nullptr;
    aclrtStream stream = nullptr;
    aclrtContext context = nullptr;
    EXPECT_EQ(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtMalloc(&memory, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtResetDevice(0), ACL_ERROR_RT_CONTEXT_NULL);
    EXPECT_EQ(aclrtSetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID);
    EXPECT_EQ(aclrtSetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);

    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetDevice(&id), ACL_SUCCESS);
    EXPECT_EQ(id, 0);
    std::thread([] {
        int32_t other = -1;
        EXPECT_EQ(aclrtGetDevice(&other), ACL_ERROR_RT_CONTEXT_NULL) << "a thread sets its own device";
    }).join();
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetDevice(&id), ACL_SUCCESS) << "set twice, reset once";
    EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetDevice(&id), ACL_ERROR_RT_CONTEXT_NULL);
}

TEST_F(AclTest, Contexts) {
    aclrtContext own = nullptr, first = nullptr, second = nullptr, current = nullptr;
    ASSERT_EQ(aclrtGetCurrentContext(&own), ACL_SUCCESS);
    EXPECT_EQ(aclrtCreateContext(&first, 3), ACL_ERROR_RT_INVALID_DEVICEID);
    ASSERT_EQ(aclrtCreateContext(&first, 0), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateContext(&second, 0), ACL_SUCCESS);
    ASSERT_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
    EXPECT_EQ(current, second);
    EXPECT_EQ(aclrtSetCurrentContext(first), ACL_SUCCESS);
    std::thread([&] {
        EXPECT_EQ(aclrtSetCurrentContext(first), ACL_SUCCESS);
        EXPECT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    }).join();
    EXPECT_EQ(aclrtDestroyContext(first), ACL_SUCCESS);
    EXPECT_EQ(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL) << "the current one is gone";
    EXPECT_EQ(aclrtDestroyContext(first), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtSetCurrentContext(first), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtSetCurrentContext(nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtDestroyContext(own), ACL_ERROR_INVALID_PARAM) << "the device's own";
    EXPECT_EQ(aclrtSetCurrentContext(own), ACL_SUCCESS);
    EXPECT_EQ(aclrtDestroyContext(second), ACL_SUCCESS);
    aclrtRunMode mode = ACL_DEVICE;
    EXPECT_EQ(aclrtGetRunMode(&mode), ACL_SUCCESS);
    EXPECT_EQ(mode, ACL_HOST);
}

TEST_F(AclTest, Memory) {
    for (const size_t bytes : {size_t{1}, size_t{100}, size_t{5} << 20}) {
        void *memory = nullptr;
        ASSERT_EQ(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
        std::memset(memory, 1, bytes);
        EXPECT_EQ(aclrtFreeHost(memory), ACL_ERROR_INVALID_PARAM) << "not from aclrtMallocHost";
        EXPECT_EQ(aclrtFree(memory), ACL_SUCCESS);
        EXPECT_EQ(aclrtFree(memory), ACL_ERROR_INVALID_PARAM) << "freed twice";
    }
    void *memory = nullptr;
    EXPECT_EQ(aclrtMalloc(nullptr, 64, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMalloc(&memory, 0, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMalloc(&memory, 64, static_cast<aclrtMemMallocPolicy>(77)), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMalloc(&memory, std::numeric_limits<size_t>::max(), ACL_MEM_MALLOC_HUGE_FIRST),
              ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_EQ(aclrtMalloc(&memory, size_t{1} << 60, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
    int on_stack = 0;
    EXPECT_EQ(aclrtFree(&on_stack), ACL_ERROR_INVALID_PARAM);
    ASSERT_EQ(aclrtMallocHost(&memory, 64), ACL_SUCCESS);
    EXPECT_EQ(aclrtFree(memory), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtFreeHost(memory), ACL_SUCCESS);
}

TEST_F(AclTest, Copies) {
    const std::vector<uint8_t> from = {1, 2, 3, 4};
    for (const aclrtMemcpyKind kind : {ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, ACL_MEMCPY_DEFAULT}) {
        std::vector<uint8_t> to(6, 9);
        EXPECT_EQ(aclrtMemcpy(to.data(), to.size(), from.data(), from.size(), kind), ACL_SUCCESS);
        EXPECT_EQ(to, (std::vector<uint8_t>{1, 2, 3, 4, 9, 9}));
    }
    std::vector<uint8_t> to(4, 9);
    const std::vector<uint8_t> untouched = to;
    EXPECT_EQ(aclrtMemcpy(to.data(), 3, from.data(), 4, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
    EXPECT_NE(recent_message().find("destMax"), std::string::npos);
    EXPECT_EQ(aclrtMemcpy(nullptr, 4, from.data(), 4, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMemcpy(to.data(), 4, nullptr, 4, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMemcpy(to.data(), 4, from.data(), 4, static_cast<aclrtMemcpyKind>(7)), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMemset(to.data(), 3, 0, 4), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMemset(nullptr, 4, 0, 4), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(to, untouched);
    EXPECT_EQ(aclrtMemcpy(nullptr, 0, nullptr, 0, ACL_MEMCPY_HOST_TO_HOST), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemset(to.data(), 4, 0x102, 3), ACL_SUCCESS);
    EXPECT_EQ(to, (std::vector<uint8_t>{2, 2, 2, 9})) << "the lowest byte of the value";
}

TEST_F(AclTest, Streams) {
    aclrtStream stream = nullptr, other = nullptr;
    EXPECT_EQ(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM);
    ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
    ASSERT_EQ(aclrtCreateStreamWithConfig(&other, 0, 3), ACL_SUCCESS);
    EXPECT_NE(stream, other);
    // Each copies what the one before it has written.
    std::vector<int> values(2000, 0);
    values[0] = 42;
    for (const aclrtStream each : {stream, other, aclrtStream{nullptr}}) {
        std::fill(values.begin() + 1, values.end(), 0);
        for (size_t i = 1; i < values.size(); i++) {
            ASSERT_EQ(aclrtMemcpyAsync(&values[i], sizeof(int), &values[i - 1], sizeof(int), ACL_MEMCPY_DEVICE_TO_DEVICE, each),
                      ACL_SUCCESS);
        }
        EXPECT_EQ(aclrtSynchronizeStream(each), ACL_SUCCESS);
        EXPECT_EQ(values, std::vector<int>(values.size(), 42));
    }
    EXPECT_EQ(aclrtMemsetAsync(values.data(), 4, 0, 8, stream), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtMemsetAsync(values.data(), 8, 0, 4, stream), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, -1), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStreamWithTimeout(stream, -2), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(values[0], 0);
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    EXPECT_EQ(aclrtStreamQuery(stream, &status), ACL_SUCCESS);
    EXPECT_EQ(status, ACL_STREAM_STATUS_COMPLETE);
    EXPECT_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
    EXPECT_EQ(aclrtMemsetAsync(values.data(), 8, 0xff, 8, stream), ACL_SUCCESS);
    EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
    EXPECT_EQ(values[0], -1) << "destroying waits";
    EXPECT_EQ(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(aclrtDestroyStream(nullptr), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(aclrtMemsetAsync(values.data(), 8, 0, 8, &values), ACL_ERROR_RT_INVALID_HANDLE) << "no stream at all";
    EXPECT_EQ(aclrtDestroyStream(other), ACL_SUCCESS);
}

TEST(AscendRuntime, TensorsSayWhatTheyAre) {
    const int64_t shape[] = {2, 3}, strides[] = {1, 2}, storage[] = {7};
    float data[7];
    aclTensor *tensor = aclCreateTensor(shape, 2, ACL_FLOAT, strides, 1, ACL_FORMAT_ND, storage, 1, data);
    ASSERT_NE(tensor, nullptr);
    int64_t *values = nullptr, offset = 0;
    uint64_t count = 0;
    ASSERT_EQ(aclGetViewShape(tensor, &values, &count), ACL_SUCCESS);
    EXPECT_EQ(std::vector<int64_t>(values, values + count), (std::vector<int64_t>{2, 3}));
    delete[] values;
    ASSERT_EQ(aclGetViewStrides(tensor, &values, &count), ACL_SUCCESS);
    EXPECT_EQ(std::vector<int64_t>(values, values + count), (std::vector<int64_t>{1, 2}));
    delete[] values;
    ASSERT_EQ(aclGetStorageShape(tensor, &values, &count), ACL_SUCCESS);
    EXPECT_EQ(std::vector<int64_t>(values, values + count), (std::vector<int64_t>{7}));
    delete[] values;
    aclDataType type = ACL_DT_UNDEFINED;
    aclFormat format = ACL_FORMAT_UNDEFINED;
    EXPECT_EQ(aclGetViewOffset(tensor, &offset), ACL_SUCCESS);
    EXPECT_EQ(offset, 1);
    EXPECT_EQ(aclGetDataType(tensor, &type), ACL_SUCCESS);
    EXPECT_EQ(type, ACL_FLOAT);
    EXPECT_EQ(aclGetFormat(tensor, &format), ACL_SUCCESS);
    EXPECT_EQ(format, ACL_FORMAT_ND);
    EXPECT_EQ(aclGetFormat(tensor, nullptr), kNullPointer);
    EXPECT_EQ(aclGetFormat(nullptr, &format), kNullPointer);
    EXPECT_EQ(aclDestroyTensor(tensor), ACL_SUCCESS);
    EXPECT_EQ(aclDestroyTensor(tensor), kInvalid);
    EXPECT_EQ(aclGetFormat(tensor, &format), kInvalid);
    EXPECT_EQ(aclDestroyTensor(nullptr), ACL_SUCCESS);

    const int64_t negative[] = {2, -3}, huge[] = {int64_t{1} << 40, int64_t{1} << 40}, many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    EXPECT_EQ(aclCreateTensor(nullptr, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, storage, 1, data), nullptr);
    EXPECT_EQ(aclCreateTensor(shape, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 1, data), nullptr);
    EXPECT_EQ(aclCreateTensor(negative, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, storage, 1, data), nullptr);
    EXPECT_EQ(aclCreateTensor(huge, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, storage, 1, data), nullptr);
    EXPECT_EQ(aclCreateTensor(many, 9, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, storage, 1, data), nullptr);
    EXPECT_NE(recent_message(), "");
}

TEST(AscendRuntime, SizesOfTypes) {
    EXPECT_EQ(aclDataTypeSize(ACL_FLOAT), 4u);
    EXPECT_EQ(aclDataTypeSize(ACL_FLOAT16), 2u);
    EXPECT_EQ(aclDataTypeSize(ACL_BF16), 2u);
    EXPECT_EQ(aclDataTypeSize(ACL_INT64), 8u);
    EXPECT_EQ(aclDataTypeSize(ACL_BOOL), 1u);
    EXPECT_EQ(aclDataTypeSize(ACL_STRING), 0u);
}

// Every half there and back; halfway points to even; what is too large or too small.
TEST(AscendRuntime, HalfPrecision) {
    for (int bits = 0; bits < 0x10000; bits++) {
        const auto half = static_cast<aclFloat16>(bits);
        const float value = aclFloat16ToFloat(half);
        if (std::isnan(value)) {
            EXPECT_TRUE(std::isnan(aclFloat16ToFloat(aclFloatToFloat16(value))));
            continue;
        }
        ASSERT_EQ(aclFloatToFloat16(value), half) << bits;
        if ((bits & 0x7fff) < 0x7bff) {
            const float next = aclFloat16ToFloat(static_cast<aclFloat16>(bits + 1)), middle = 0.5f * (value + next);
            const auto even = static_cast<aclFloat16>(bits % 2 == 0 ? bits : bits + 1);
            ASSERT_EQ(aclFloatToFloat16(middle), even) << bits;
            ASSERT_EQ(aclFloatToFloat16(std::nextafter(middle, value)), half) << bits;
            ASSERT_EQ(aclFloatToFloat16(std::nextafter(middle, next)), half + 1) << bits;
        }
    }
    EXPECT_EQ(aclFloat16ToFloat(0x3c00), 1.0f);
    EXPECT_EQ(aclFloat16ToFloat(0x0001), 0x1p-24f);
    EXPECT_EQ(aclFloatToFloat16(65519.0f), 0x7bff);
    EXPECT_EQ(aclFloatToFloat16(65520.0f), 0x7c00);
    EXPECT_EQ(aclFloatToFloat16(-1e30f), 0xfc00);
    EXPECT_EQ(aclFloatToFloat16(1e-30f), 0x0000);
    EXPECT_EQ(aclFloatToFloat16(-0.0f), 0x8000);
}

}  // namespace
}  // namespace deformkit::testing
