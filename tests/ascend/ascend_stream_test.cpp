// The queue behind a stream, with jobs that fail and jobs that wait for each other.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

#include "acl.h"
#include "acl/acl_rt.h"
#include "compat/ascend/status.h"
#include "compat/ascend/stream.h"

namespace deformkit::testing {
namespace {

using ascend::Error;
using ascend::Job;
using ascend::Stream;

struct Call : Job {
    explicit Call(std::function<void()> body) : body(std::move(body)) {}
    void run(void *) override { body(); }
    std::function<void()> body;
};

std::shared_ptr<Job> call(std::function<void()> body) {
    return std::make_shared<Call>(std::move(body));
}

/// Closed until it is opened.
class Gate {
public:
    void open() {
        std::lock_guard<std::mutex> lock(mutex_);
        open_ = true;
        opened_.notify_all();
    }
    void pass() {
        std::unique_lock<std::mutex> lock(mutex_);
        opened_.wait(lock, [&] { return open_; });
    }

private:
    std::mutex mutex_;
    std::condition_variable opened_;
    bool open_ = false;
};

int code_of(const std::function<void()> &body) {
    try {
        body();
        return ACL_SUCCESS;
    } catch (const Error &error) {
        return error.code();
    }
}

TEST(AscendStream, RunsInOrderWhileTheCallerGoesOn) {
    Stream stream;
    Gate gate;
    std::vector<int> done;
    stream.submit(call([&] { gate.pass(); }), nullptr);
    for (int i = 0; i < 100; i++) {
        stream.submit(call([&done, i] { done.push_back(i); }), nullptr);
    }
    EXPECT_FALSE(stream.idle());
    EXPECT_EQ(code_of([&] { stream.synchronize(1); }), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate.open();
    stream.synchronize();
    EXPECT_TRUE(stream.idle());
    ASSERT_EQ(done.size(), 100u);
    for (int i = 0; i < 100; i++) {
        EXPECT_EQ(done[i], i);
    }
}

TEST(AscendStream, SynchronisingReportsTheFirstErrorOnce) {
    Stream stream;
    std::atomic<int> ran{0};
    stream.submit(call([&] { ran++; }), nullptr);
    stream.submit(call([] { throw Error(507000, "the first"); }), nullptr);
    stream.submit(call([] { throw Error(207001, "the second"); }), nullptr);
    stream.submit(call([&] { ran++; }), nullptr);
    try {
        stream.synchronize();
        FAIL() << "no error";
    } catch (const Error &error) {
        EXPECT_EQ(error.code(), 507000);
        EXPECT_STREQ(error.what(), "the first");
    }
    EXPECT_EQ(ran, 2);
    stream.synchronize();
    stream.submit(call([] { throw std::runtime_error("unexpected"); }), nullptr);
    EXPECT_EQ(code_of([&] { stream.synchronize(); }), ACL_ERROR_RT_INTERNAL_ERROR);
    stream.synchronize();
}

TEST(AscendStream, AFullQueueMakesTheCallerWait) {
    Stream stream;
    Gate gate;
    std::atomic<int> submitted{0}, ran{0};
    constexpr int kJobs = 5000;
    stream.submit(call([&] { gate.pass(); }), nullptr);
    std::thread producer([&] {
        for (int i = 0; i < kJobs; i++) {
            stream.submit(call([&] { ran++; }), nullptr);
            submitted++;
        }
    });
    gate.open();
    producer.join();
    stream.synchronize();
    EXPECT_EQ(submitted, kJobs);
    EXPECT_EQ(ran, kJobs);
}

TEST(AscendStream, ManyThreadsSubmitAndWait) {
    Stream stream;
    std::atomic<int> ran{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([&] {
            for (int i = 0; i < 500; i++) {
                stream.submit(call([&] { ran++; }), nullptr);
                if (i % 50 == 0) {
                    stream.synchronize();
                }
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    stream.synchronize();
    EXPECT_EQ(ran, 2000);
}

TEST(AscendStream, StoppingFinishesWhatIsQueued) {
    std::atomic<int> ran{0};
    Stream stream;
    for (int i = 0; i < 50; i++) {
        stream.submit(call([&] { ran++; }), nullptr);
    }
    stream.stop();
    EXPECT_EQ(ran, 50);
    EXPECT_EQ(code_of([&] { stream.submit(call([&] { ran++; }), nullptr); }), ACL_ERROR_RT_INVALID_HANDLE);
    EXPECT_EQ(ran, 50);
}

TEST(AscendStream, ErrorsReachTheCallerOfSynchronizeStream) {
    ASSERT_EQ(aclrtSetDevice(0), ACL_SUCCESS);
    aclrtStream handle = nullptr;
    ASSERT_EQ(aclrtCreateStream(&handle), ACL_SUCCESS);
    ascend::stream_of(handle)->submit(call([] { throw Error(507000, "what went wrong"); }), nullptr);
    EXPECT_EQ(aclrtSynchronizeStream(handle), 507000);
    EXPECT_EQ(recent_message(), "what went wrong");
    EXPECT_EQ(aclrtSynchronizeStream(handle), ACL_SUCCESS);
    ascend::stream_of(handle)->submit(call([] { throw Error(507000, "again"); }), nullptr);
    EXPECT_EQ(aclrtSynchronizeDevice(), 507000);
    EXPECT_EQ(aclrtDestroyStream(handle), ACL_SUCCESS);
    EXPECT_EQ(aclrtResetDevice(0), ACL_SUCCESS);
}

}  // namespace
}  // namespace deformkit::testing
