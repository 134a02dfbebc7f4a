#include "runtime/system/parallel.h"

#include <HalideRuntime.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/interface/error.h"
#include "runtime/system/log.h"
#include "runtime/system/memory.h"
#include "runtime/system/workspace.h"

namespace deformkit {

namespace {

std::atomic<int> requested_threads{0};  // 0: one per core
std::atomic<bool> forked{false};
std::mutex error_mutex;
char halide_error_text[512] = "";
thread_local char halide_error_copy[sizeof(halide_error_text)];

// Halide's own handler ends the process.
void on_error(void *, const char *message) {
    std::lock_guard<std::mutex> lock(error_mutex);
    std::snprintf(halide_error_text, sizeof(halide_error_text), "%s", message);
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

/// A parallel loop of a call that has a workspace: as many workers as that has memory for, each taking the next task until none
/// is left.
struct Workers {
    Workspace &workspace;
    halide_task_t task;
    void *context;
    uint8_t *closure;
    std::atomic<int64_t> next;
    int64_t end;

    static int run(void *, int worker, uint8_t *closure) {
        Workers &workers = *reinterpret_cast<Workers *>(closure);
        WorkspaceRegion region = workers.workspace.worker(worker);
        const WorkspaceScope scope(&region);
        int result = 0;
        for (int64_t i = workers.next++; result == 0 && i < workers.end; i = workers.next++) {
            result = workers.task(workers.context, static_cast<int>(i), workers.closure);
        }
        workers.workspace.note(region);
        return result;
    }
};

int par_for_in_workspace(Workspace &workspace, void *context, halide_task_t task, int min, int size, uint8_t *closure) {
    Workers workers{workspace, task, context, closure, {min}, int64_t{min} + size};
    const int count = std::min(size, workspace.workers());
    if (count <= 1 || forked.load(std::memory_order_relaxed)) {
        return Workers::run(nullptr, 0, reinterpret_cast<uint8_t *>(&workers));
    }
    // While it waits, this thread may be given tasks of other calls.
    const WorkspaceScope scope(nullptr);
    return halide_default_do_par_for(nullptr, Workers::run, 0, count, reinterpret_cast<uint8_t *>(&workers));
}

// A single task, or a single thread, runs here and now: the pool's bookkeeping would cost more than a small call. So does a
// child after fork(), which has none of its parent's worker threads.
int on_par_for(void *context, halide_task_t task, int min, int size, uint8_t *closure) {
    if (Workspace *workspace = Workspace::current(); workspace != nullptr && size > 0) {
        return par_for_in_workspace(*workspace, context, task, min, size, closure);
    }
    // Within a worker's task, this thread's region is all there is.
    if (workspace_region() == nullptr && size > 1 && num_threads() > 1 && !forked.load(std::memory_order_relaxed)) {
        return halide_default_do_par_for(context, task, min, size, closure);
    }
    for (int i = min; i < min + size; i++) {
        if (const int result = task(context, i, closure)) {
            return result;
        }
    }
    return 0;
}

int cores() {
    static const int count = [] {
        cpu_set_t set;
        if (sched_getaffinity(0, sizeof(set), &set) == 0) {
            return std::max(1, CPU_COUNT(&set));
        }
        return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    }();
    return count;
}

void set_threads(int n) {
    requested_threads.store(n, std::memory_order_relaxed);
    halide_set_num_threads(n > 0 ? n : cores());
}

}  // namespace

void initialise_halide() {
    static const bool done = [] {
        halide_set_error_handler(on_error);
        halide_set_custom_print(on_print);
        halide_set_custom_malloc(on_malloc);
        halide_set_custom_free(on_free);
        halide_set_custom_do_par_for(on_par_for);
        pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
        int n = 0;
        if (const char *text = std::getenv("DEFORMKIT_NUM_THREADS"); text != nullptr && *text != '\0') {
            char *end = nullptr;
            const long value = std::strtol(text, &end, 10);
            if (*end != '\0' || value < 0 || value > 4096) {
                throw Failure(DEFORMKIT_INVALID_VALUE,
                              std::string("DEFORMKIT_NUM_THREADS: expected a number from 0 to 4096, got ") + text);
            }
            n = static_cast<int>(value);
        }
        set_threads(n);
        return true;
    }();
    static_cast<void>(done);
}

void start_threads() {
    initialise_halide();
    parallel_for(2, [](int) {});
}

int num_threads() {
    if (const Workspace *workspace = Workspace::current()) {
        return std::max(1, workspace->workers());
    }
    const int n = requested_threads.load(std::memory_order_relaxed);
    return n > 0 ? n : cores();
}

const char *last_halide_error() {
    std::lock_guard<std::mutex> lock(error_mutex);
    std::snprintf(halide_error_copy, sizeof(halide_error_copy), "%s", halide_error_text);
    return halide_error_copy;
}

void detail::parallel_for(int count, int (*task)(void *context, int i, uint8_t *closure), uint8_t *closure) {
    halide_do_par_for(nullptr, task, 0, count, closure);
}

}  // namespace deformkit

deformkit_status deformkit_set_num_threads(int num_threads) {
    return deformkit::guarded([&] {
        if (num_threads < 0 || num_threads > 4096) {
            throw deformkit::Failure(DEFORMKIT_INVALID_VALUE,
                                     "num_threads: expected a number from 0 to 4096, got " + std::to_string(num_threads));
        }
        deformkit::initialise_halide();
        deformkit::set_threads(num_threads);
    });
}

int deformkit_get_num_threads(void) {
    const deformkit_status status = deformkit::guarded([] { deformkit::initialise_halide(); });
    return status == DEFORMKIT_OK ? deformkit::requested_threads.load(std::memory_order_relaxed) : -1;
}
