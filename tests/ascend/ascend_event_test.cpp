// Events, and options of the system.
#include <acl/acl.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "acl.h"

namespace deformkit::testing {
namespace {

class AscendEvent : public AclTest {
protected:
    void SetUp() override {
        AclTest::SetUp();
        for (aclrtStream &stream : streams_) {
            ASSERT_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
        }
        ASSERT_EQ(aclrtCreateEvent(&event_), ACL_SUCCESS);
        ASSERT_EQ(aclrtCreateEventExWithFlag(&other_, ACL_EVENT_TIME_LINE | ACL_EVENT_SYNC), ACL_SUCCESS);
    }

    void TearDown() override {
        for (aclrtStream stream : streams_) {
            EXPECT_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
        }
        EXPECT_EQ(aclrtDestroyEvent(event_), ACL_SUCCESS);
        EXPECT_EQ(aclrtDestroyEvent(other_), ACL_SUCCESS);
        AclTest::TearDown();
    }

    /// Work that takes some milliseconds, and leaves `value`.
    void fill(aclrtStream stream, int value) {
        for (int i = 0; i < 8; i++) {
            ASSERT_EQ(aclrtMemsetAsync(memory_.data(), memory_.size(), i == 7 ? value : 0, memory_.size(), stream),
                      ACL_SUCCESS);
        }
    }

    aclrtEventRecordedStatus status(aclrtEvent event) {
        auto found = ACL_EVENT_RECORDED_STATUS_NOT_READY;
        EXPECT_EQ(aclrtQueryEventStatus(event, &found), ACL_SUCCESS);
        return found;
    }

    aclrtStream streams_[2] = {};
    aclrtEvent event_ = nullptr, other_ = nullptr;
    std::vector<uint8_t> memory_ = std::vector<uint8_t>(16 << 20);
};

TEST_F(AscendEvent, IsReachedWhenAllBeforeItIsDone) {
    EXPECT_EQ(status(event_), ACL_EVENT_RECORDED_STATUS_COMPLETE) << "nothing to wait for before it is recorded";
    EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS);
    fill(streams_[0], 7);
    EXPECT_EQ(aclrtRecordEvent(event_, streams_[0]), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeEvent(event_), ACL_SUCCESS);
    EXPECT_EQ(memory_.front(), 7);
    EXPECT_EQ(memory_.back(), 7);
    EXPECT_EQ(status(event_), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    auto old = ACL_EVENT_STATUS_NOT_READY;
    EXPECT_EQ(aclrtQueryEvent(event_, &old), ACL_SUCCESS);
    EXPECT_EQ(old, ACL_EVENT_STATUS_COMPLETE);
}

TEST_F(AscendEvent, OneStreamWaitsForAnother) {
    std::vector<uint8_t> copy(memory_.size());
    for (const int round : {1, 2, 3}) {
        fill(streams_[0], round);
        EXPECT_EQ(aclrtRecordEvent(event_, streams_[0]), ACL_SUCCESS);
        EXPECT_EQ(aclrtStreamWaitEvent(streams_[1], event_), ACL_SUCCESS);
        EXPECT_EQ(aclrtMemcpyAsync(copy.data(), copy.size(), memory_.data(), memory_.size(), ACL_MEMCPY_DEVICE_TO_DEVICE,
                                   streams_[1]),
                  ACL_SUCCESS);
        EXPECT_EQ(aclrtSynchronizeStream(streams_[1]), ACL_SUCCESS);
        EXPECT_EQ(copy, std::vector<uint8_t>(copy.size(), static_cast<uint8_t>(round)));
    }
}

TEST_F(AscendEvent, WaitsNoLongerThanItIsTold) {
    // The second stream cannot go on before the first has reached other_, which is recorded behind what waits for it here.
    fill(streams_[0], 1);
    EXPECT_EQ(aclrtRecordEvent(other_, streams_[0]), ACL_SUCCESS);
    EXPECT_EQ(aclrtStreamWaitEvent(streams_[1], other_), ACL_SUCCESS);
    EXPECT_EQ(aclrtRecordEvent(event_, streams_[1]), ACL_SUCCESS);
    const aclError early = aclrtSynchronizeEventWithTimeout(event_, 0);
    EXPECT_TRUE(early == ACL_SUCCESS || early == ACL_ERROR_RT_EVENT_SYNC_TIMEOUT) << early;
    EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event_, 60000), ACL_SUCCESS);
    EXPECT_EQ(status(other_), ACL_EVENT_RECORDED_STATUS_COMPLETE);
    EXPECT_EQ(aclrtSynchronizeEventWithTimeout(event_, -2), ACL_ERROR_INVALID_PARAM);
}

TEST_F(AscendEvent, MeasuresTime) {
    float ms = -1;
    EXPECT_EQ(aclrtEventElapsedTime(&ms, event_, other_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
    EXPECT_EQ(recent_message(), "startEvent: expected one that has been recorded and reached");
    EXPECT_EQ(aclrtRecordEvent(event_, streams_[0]), ACL_SUCCESS);
    fill(streams_[0], 1);
    EXPECT_EQ(aclrtRecordEvent(other_, streams_[0]), ACL_SUCCESS);
    EXPECT_EQ(aclrtSynchronizeStream(streams_[0]), ACL_SUCCESS);
    EXPECT_EQ(aclrtEventElapsedTime(&ms, event_, other_), ACL_SUCCESS);
    EXPECT_GT(ms, 0);
    EXPECT_LT(ms, 60000);
    float back = 0;
    EXPECT_EQ(aclrtEventElapsedTime(&back, other_, event_), ACL_SUCCESS);
    EXPECT_EQ(back, -ms);
    EXPECT_EQ(aclrtResetEvent(event_, streams_[0]), ACL_SUCCESS);
    EXPECT_EQ(aclrtEventElapsedTime(&ms, event_, other_), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
}

TEST_F(AscendEvent, WrongHandlesAreRefused) {
    aclrtEvent gone = nullptr;
    ASSERT_EQ(aclrtCreateEventWithFlag(&gone, ACL_EVENT_SYNC), ACL_SUCCESS);
    ASSERT_EQ(aclrtDestroyEvent(gone), ACL_SUCCESS);
    auto recorded = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    for (aclrtEvent wrong : {gone, static_cast<aclrtEvent>(nullptr), static_cast<aclrtEvent>(streams_[0])}) {
        EXPECT_EQ(aclrtRecordEvent(wrong, streams_[0]), ACL_ERROR_RT_INVALID_HANDLE);
        EXPECT_EQ(aclrtSynchronizeEvent(wrong), ACL_ERROR_RT_INVALID_HANDLE);
        EXPECT_EQ(aclrtStreamWaitEvent(streams_[0], wrong), ACL_ERROR_RT_INVALID_HANDLE);
        EXPECT_EQ(aclrtQueryEventStatus(wrong, &recorded), ACL_ERROR_RT_INVALID_HANDLE);
        EXPECT_EQ(aclrtDestroyEvent(wrong), ACL_ERROR_RT_INVALID_HANDLE);
    }
    EXPECT_EQ(aclrtRecordEvent(event_, gone), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(aclrtCreateEvent(nullptr), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtQueryEventStatus(event_, nullptr), ACL_ERROR_INVALID_PARAM);
    std::thread([] {
        aclrtEvent event = nullptr;
        EXPECT_EQ(aclrtCreateEvent(&event), ACL_ERROR_RT_CONTEXT_NULL) << "a thread without a device";
    }).join();
}

TEST_F(AscendEvent, OptionsOfTheProcessAndOfAContext) {
    int64_t value = -1;
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_SUCCESS);
    EXPECT_EQ(value, 0);
    EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 2), ACL_SUCCESS);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_SUCCESS);
    EXPECT_EQ(value, 2);
    EXPECT_EQ(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1), ACL_SUCCESS);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_SUCCESS);
    EXPECT_EQ(value, 1);
    EXPECT_EQ(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value), ACL_SUCCESS);
    EXPECT_EQ(value, 2);
    EXPECT_EQ(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0), ACL_SUCCESS);
    EXPECT_EQ(aclrtCtxSetSysParamOpt(static_cast<aclSysParamOpt>(77), 1), ACL_ERROR_INVALID_PARAM);
    EXPECT_EQ(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, nullptr), ACL_ERROR_INVALID_PARAM);
}

}  // namespace
}  // namespace deformkit::testing
