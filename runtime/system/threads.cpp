#include "runtime/system/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <mutex>

#include "runtime/system/locks.h"
#include "runtime/system/log.h"

namespace deformkit {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kSpin{20};    // to sleep and be woken takes about as long
constexpr std::chrono::milliseconds kRetry{100};  // before threads are started again that could not be
constexpr size_t kStackBytes = size_t{2} << 20;   // of which a program's thread-local variables take some
constexpr uint32_t kWaiting = uint32_t{1} << 31;

void sleep_while(std::atomic<uint32_t> &word, uint32_t value) {
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}

void wake(std::atomic<uint32_t> &word, int count) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");
#endif
}

template <typename Done>
bool spin_until(Done &&done) {
    const Clock::time_point end = Clock::now() + kSpin;
    do {
        for (int i = 0; i < 16; i++) {
            if (done()) {
                return true;
            }
            pause();
        }
    } while (Clock::now() < end);
    return false;
}

}  // namespace

/// Guarded by Lock::kWorkers, but for what is atomic. Neither constructed nor destroyed.
struct Workers {
    Loop *first = nullptr, *last = nullptr;  // that may have tasks left, oldest first
    pthread_t threads[kMostThreads] = {};
    int count = 0;
    Clock::time_point retry{};
    std::atomic<bool> ending{false};
    std::atomic<uint32_t> news{0};  // changes with each loop that begins
    std::atomic<int> spinning{0}, sleeping{0};

    static void *run(void *);

    void add(Loop &loop) {
        loop.previous_ = last;
        (last != nullptr ? last->following_ : first) = &loop;
        last = &loop;
    }

    void remove(Loop &loop) {
        (loop.previous_ != nullptr ? loop.previous_->following_ : first) = loop.following_;
        (loop.following_ != nullptr ? loop.following_->previous_ : last) = loop.previous_;
    }

    Loop *find() const {
        Loop *loop = first;
        while (loop != nullptr && !loop->has_room()) {
            loop = loop->following_;
        }
        return loop;
    }

    void wait(uint32_t seen) {
        const auto is_new = [&] { return news.load() != seen; };
        spinning++;
        const bool came = spin_until(is_new);
        spinning--;
        if (came) {
            return;
        }
        sleeping++;
        while (!is_new()) {
            sleep_while(news, seen);
        }
        sleeping--;
    }

    void announce(int wanted) {
        news++;
        if (const int others = std::min(wanted - spinning.load(), sleeping.load()); others > 0) {
            wake(news, others);
        }
    }

    /// As many as there can be, up to so many.
    void start(int wanted) {
        wanted = std::min(wanted, kMostThreads - 1);
        if (count >= wanted || ending || Clock::now() < retry) {
            return;
        }
        pthread_attr_t attributes;
        if (pthread_attr_init(&attributes) != 0) {
            return;
        }
        pthread_attr_setstacksize(&attributes, kStackBytes);
        // Signals are for the program's own threads.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        int failure = 0;
        while (count < wanted && failure == 0) {
            failure = pthread_create(&threads[count], &attributes, run, nullptr);
            if (failure == EINVAL) {  // a program's thread-local variables may take more than that stack
                failure = pthread_create(&threads[count], nullptr, run, nullptr);
            }
            count += failure == 0;
        }
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
        pthread_attr_destroy(&attributes);
        if (failure != 0) {
            log("%d of %d worker threads could be started", count, wanted);
            retry = Clock::now() + kRetry;
        }
    }
} workers;

namespace {

std::mutex &mutex() {
    return mutex_of(Lock::kWorkers);
}

/// The child's only thread is the one that called fork().
void forget_workers() {
    workers.first = workers.last = nullptr;
    workers.count = 0;
    workers.retry = {};
    workers.ending = false;
    workers.spinning = workers.sleeping = 0;
}

[[gnu::constructor(102)]] void handle_forks() {
    pthread_atfork(nullptr, nullptr, forget_workers);
}

/// When the program ends or unloads the library. Calls that still run go on alone.
[[gnu::destructor(102)]] void end_workers() {
    {
        std::lock_guard<std::mutex> lock(mutex());
        workers.ending = true;
        workers.announce(kMostThreads);
    }
    for (int i = 0; i < workers.count; i++) {
        pthread_join(workers.threads[i], nullptr);
    }
    workers.count = 0;
}

}  // namespace

void *Workers::run(void *) {
    std::unique_lock<std::mutex> lock(mutex());
    while (!workers.ending) {
        if (Loop *loop = workers.find()) {
            const int seat = loop->seats_++;
            loop->inside_++;
            lock.unlock();
            loop->work(seat);
            // The last to leave may find the loop gone, unless somebody waits.
            if (--loop->inside_ == kWaiting) {
                wake(loop->inside_, 1);
            }
            lock.lock();
        } else {
            const uint32_t seen = workers.news;
            lock.unlock();
            workers.wait(seen);
            lock.lock();
        }
    }
    return nullptr;
}

Loop::Loop(int64_t begin, int64_t end, int threads) : next_(begin), end_(end), threads_(threads) {}

void Loop::run() {
    const int wanted = static_cast<int>(std::min<int64_t>(end_ - next_, threads_)) - 1;
    if (wanted <= 0) {
        work(0);
        return;
    }
    {
        std::lock_guard<std::mutex> lock(mutex());
        workers.start(wanted);
        workers.add(*this);
    }
    workers.announce(wanted);
    work(0);
    {
        std::lock_guard<std::mutex> lock(mutex());
        workers.remove(*this);
    }
    wait_for_workers();
}

void Loop::wait_for_workers() {
    if (inside_.load() == 0 || spin_until([&] { return inside_.load() == 0; })) {
        return;
    }
    for (uint32_t inside = inside_.fetch_or(kWaiting) | kWaiting; inside != kWaiting; inside = inside_.load()) {
        sleep_while(inside_, inside);
    }
}

bool Loop::has_room() const {
    return next_.load(std::memory_order_relaxed) < end_ && seats_ < threads_;
}

bool Loop::take(int seat, int64_t &task) {
    if (seat > 0 && workers.ending.load(std::memory_order_relaxed)) {
        return false;
    }
    task = next_.fetch_add(1, std::memory_order_relaxed);
    return task < end_;
}

void start_workers(int threads) {
    std::lock_guard<std::mutex> lock(mutex());
    workers.start(threads - 1);
}

}  // namespace deformkit
