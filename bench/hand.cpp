#include "bench/hand.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "bench/hand_avx512.h"

namespace deformkit::bench {
namespace {

/// Threads that stay, since starting one costs a tenth of a decoder's call.
class ThreadPool {
public:
    explicit ThreadPool(int size) {
        for (int i = 0; i < size - 1; i++) {
            threads_.emplace_back([this] { work(); });
        }
    }

    ~ThreadPool() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        for (std::thread &thread : threads_) {
            thread.join();
        }
    }

    int size() const { return static_cast<int>(threads_.size()) + 1; }

    /// Runs `job` once on every thread, the caller's included, and returns when all are done.
    void run_on_all(const std::function<void()> &job) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            job_ = &job;
            generation_++;
            running_ = static_cast<int>(threads_.size());
        }
        wake_.notify_all();
        job();
        std::unique_lock<std::mutex> lock(mutex_);
        done_.wait(lock, [this] { return running_ == 0; });
    }

private:
    void work() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (int64_t seen = 0;; seen = generation_) {
            wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
            if (stop_) {
                return;
            }
            const std::function<void()> *job = job_;
            lock.unlock();
            (*job)();
            lock.lock();
            if (--running_ == 0) {
                done_.notify_one();
            }
        }
    }

    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable wake_, done_;
    const std::function<void()> *job_ = nullptr;
    int64_t generation_ = 0;
    int running_ = 0;
    bool stop_ = false;
};

ThreadPool &pool_of(int size) {
    static std::unique_ptr<ThreadPool> pool;
    if (!pool || pool->size() != size) {
        pool = std::make_unique<ThreadPool>(size);
    }
    return *pool;
}

}  // namespace

bool hand_msda_supports(const testing::MsdaWorkload &workload) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && workload.heads == kHandHeads &&
           workload.channels == kHandChannels && static_cast<int>(workload.levels.size()) == kHandLevels &&
           workload.points == kHandPoints && workload.keys() < (int64_t{1} << 31) / (kHandHeads * kHandChannels);
}

void hand_msda_forward(const testing::MsdaWorkload &workload, const float *value, const int64_t *spatial_shapes,
                       const int64_t *level_start_index, const float *sampling_locations, const float *attention_weights,
                       float *output, int num_threads) {
    HandLevel levels[kHandLevels];
    for (int l = 0; l < kHandLevels; l++) {
        levels[l] = {static_cast<int32_t>(spatial_shapes[2 * l]), static_cast<int32_t>(spatial_shapes[2 * l + 1]),
                     static_cast<int32_t>(level_start_index[l])};
    }
    const int64_t row = kHandHeads * kHandChannels, samples = kHandHeads * kHandLevels * kHandPoints;
    const int64_t queries = workload.queries;
    const auto range = [&](int64_t b, int64_t first, int64_t count) {
        const int64_t query = b * queries + first;
        hand_msda_forward_avx512(value + b * workload.keys() * row, levels, sampling_locations + query * samples * 2,
                                 attention_weights + query * samples, output + query * row, count);
    };
    if (num_threads <= 1) {
        for (int64_t b = 0; b < workload.batch; b++) {
            range(b, 0, queries);
        }
        return;
    }
    // Small enough to balance a decoder's 900 queries, large enough that taking one costs nothing.
    const int64_t chunk = 32, chunks_per_batch = (queries + chunk - 1) / chunk;
    std::atomic<int64_t> next{0};
    pool_of(num_threads).run_on_all([&] {
        for (int64_t c = next++; c < workload.batch * chunks_per_batch; c = next++) {
            const int64_t first = c % chunks_per_batch * chunk;
            range(c / chunks_per_batch, first, std::min(chunk, queries - first));
        }
    });
}

}  // namespace deformkit::bench
