#include "runtime/system/parallel.h"

#include <HalideRuntime.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "runtime/interface/error.h"
#include "runtime/system/locks.h"
#include "runtime/system/log.h"
#include "runtime/system/memory.h"
#include "runtime/system/threads.h"
#include "runtime/system/workspace.h"

namespace deformkit {

namespace {

std::atomic<int> requested_threads{-1};  // 0: one per core; -1: DEFORMKIT_NUM_THREADS has not been looked at
thread_local HalideErrors *current_errors = nullptr;
thread_local bool in_loop = false;  // this thread runs a task of a loop that is shared
thread_local const deformkit_thread_pool *thread_pool = nullptr;

// Halide's own handler ends the process.
void on_error(void *, const char *message) {
    if (current_errors != nullptr) {
        current_errors->note(message);
    }
}

void on_print(void *, const char *message) {
    log("%s", message);
}

void *on_malloc(void *, size_t bytes) {
    return scratch_acquire(bytes);
}

void on_free(void *, void *block) {
    scratch_release(block);
}

/// A parallel loop of a kernel or of the copies around one. A call's workspace has memory for each of its threads.
class Tasks final : public Loop {
public:
    Tasks(Workspace *workspace, int threads, void *context, halide_task_t task, int begin, int size, uint8_t *closure)
        : Loop(begin, int64_t{begin} + size, threads),
          workspace_(workspace),
          context_(context),
          task_(task),
          closure_(closure) {}

    int result() const { return result_; }

    void run_on(const deformkit_thread_pool &pool, int parts) {
        const auto part = [](void *tasks, int i) { static_cast<Tasks *>(tasks)->work(i); };
        pool.parallel_for(pool.context, parts, part, this);
    }

private:
    void work(int seat) override {
        HalideErrors *const outside = std::exchange(current_errors, errors_);
        in_loop = true;
        if (workspace_ != nullptr) {
            WorkspaceRegion region = workspace_->worker(seat);
            const WorkspaceScope scope(&region);
            run_tasks(seat);
            workspace_->note(region);
        } else {
            run_tasks(seat);
        }
        in_loop = false;
        current_errors = outside;
    }

    void run_tasks(int seat) {
        for (int64_t i; take(seat, i);) {
            if (const int result = task_(context_, static_cast<int>(i), closure_)) {
                result_ = result;
                cancel();
            }
        }
    }

    Workspace *workspace_;
    HalideErrors *errors_ = current_errors;
    void *context_;
    halide_task_t task_;
    uint8_t *closure_;
    std::atomic<int> result_{0};
};

int run_here(void *context, halide_task_t task, int begin, int size, uint8_t *closure) {
    for (int i = begin; i < begin + size; i++) {
        if (const int result = task(context, i, closure)) {
            return result;
        }
    }
    return 0;
}

/// In the region of worker 0, whose rest loops within the tasks have, and the other workers'.
int run_here_in(Workspace &workspace, void *context, halide_task_t task, int begin, int size, uint8_t *closure) {
    WorkspaceRegion region = workspace.worker(0);
    const WorkspaceScope scope(&region, region.measures() ? nullptr : &workspace);
    const WorkspaceRegion *const before = workspace.set_alone(&region);
    const int result = run_here(context, task, begin, size, closure);
    workspace.set_alone(before);
    workspace.note(region);
    return result;
}

// A single task, or a single thread, runs here and now: to share would cost more than a small call.
int on_par_for(void *context, halide_task_t task, int begin, int size, uint8_t *closure) {
    Workspace *const workspace = Workspace::current();
    const int threads = num_threads();
    const bool here = size <= 1 || threads == 1;
    if (workspace != nullptr && here && size > 0) {
        return run_here_in(*workspace, context, task, begin, size, closure);
    }
    // Within a shared task, this thread and its region are all there is; so they are where a task is measured.
    if (here || in_loop || (workspace == nullptr && workspace_region() != nullptr)) {
        return run_here(context, task, begin, size, closure);
    }
    Tasks tasks(workspace, threads, context, task, begin, size, closure);
    if (thread_pool != nullptr && thread_pool->parallel_for != nullptr) {
        tasks.run_on(*thread_pool, std::min(threads, size));
    } else {
        tasks.run();
    }
    return tasks.result();
}

// While the library is loaded. All kernels share this runtime, and nobody else sees it.
[[gnu::constructor(103)]] void set_up_halide() {
    halide_set_error_handler(on_error);
    halide_set_custom_print(on_print);
    halide_set_custom_malloc(on_malloc);
    halide_set_custom_free(on_free);
    halide_set_custom_do_par_for(on_par_for);
}

int cores() {
    static std::atomic<int> count{-1};
    return known_or(count, [] {
        cpu_set_t set;
        const bool known = sched_getaffinity(0, sizeof(set), &set) == 0;
        const int cpus = known ? CPU_COUNT(&set) : static_cast<int>(std::thread::hardware_concurrency());
        return std::clamp(cpus, 1, kMostThreads);
    });
}

[[noreturn]] void refuse(const char *name, const std::string &number) {
    throw Failure(DEFORMKIT_INVALID_VALUE,
                  std::string(name) + ": expected a number from 0 to " + std::to_string(kMostThreads) + ", got " + number);
}

int required_thread_count(int num_threads) {
    if (num_threads < 0 || num_threads > kMostThreads) {
        refuse("num_threads", std::to_string(num_threads));
    }
    return num_threads;
}

int requested() {
    int n = requested_threads.load(std::memory_order_relaxed);
    if (n < 0) {
        int from_environment = 0;
        if (const char *text = std::getenv("DEFORMKIT_NUM_THREADS"); text != nullptr && *text != '\0') {
            char *end = nullptr;
            const long value = std::strtol(text, &end, 10);
            if (*end != '\0' || value < 0 || value > kMostThreads) {
                refuse("DEFORMKIT_NUM_THREADS", text);
            }
            from_environment = static_cast<int>(value);
        }
        // Unless another thread has set a number meanwhile.
        n = requested_threads.compare_exchange_strong(n, from_environment) ? from_environment : n;
    }
    return n;
}

}  // namespace

void start_threads() {
    start_workers(num_threads());
}

int num_threads() {
    if (const Workspace *workspace = Workspace::current()) {
        return std::max(1, workspace->workers());
    }
    const int n = thread_pool != nullptr ? required_thread_count(thread_pool->num_threads) : requested();
    return n > 0 ? n : cores();
}

HalideErrors::HalideErrors() : outside_(std::exchange(current_errors, this)) {
    text_[0] = '\0';
}

HalideErrors::~HalideErrors() {
    current_errors = outside_;
}

void HalideErrors::note(const char *message) noexcept {
    if (!noted_.exchange(true)) {
        std::snprintf(text_, sizeof(text_), "%s", message);
    }
}

void detail::parallel_for(int count, int (*task)(void *context, int i, uint8_t *closure), uint8_t *closure) {
    on_par_for(nullptr, task, 0, count, closure);
}

}  // namespace deformkit

deformkit_status deformkit_set_num_threads(int num_threads) {
    return deformkit::guarded([&] {
        deformkit::requested();
        deformkit::requested_threads.store(deformkit::required_thread_count(num_threads), std::memory_order_relaxed);
    });
}

const deformkit_thread_pool *deformkit_set_thread_pool(const deformkit_thread_pool *pool) {
    return std::exchange(deformkit::thread_pool, pool);
}

int deformkit_get_num_threads(void) {
    int n = 0;
    const deformkit_status status = deformkit::guarded([&] { n = deformkit::requested(); });
    return status == DEFORMKIT_OK ? n : -1;
}
