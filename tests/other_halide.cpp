// A library that somebody else has built with Halide: everything of its runtime is visible, and has hooks of its own.
#include <HalideRuntime.h>

#include <atomic>
#include <cstdlib>

namespace {

std::atomic<int> hooks_called{0};
std::atomic<int> tasks_run{0};

}  // namespace

extern "C" void other_install() {
    halide_set_error_handler([](void *, const char *) { hooks_called++; });
    halide_set_custom_malloc([](void *, size_t bytes) -> void * {
        hooks_called++;
        return std::malloc(bytes);
    });
    halide_set_custom_free([](void *, void *block) { std::free(block); });
    halide_set_custom_do_par_for([](void *context, halide_task_t task, int begin, int size, uint8_t *closure) {
        hooks_called++;
        return halide_default_do_par_for(context, task, begin, size, closure);
    });
    halide_set_num_threads(4);
}

/// How often its hooks were called so far.
extern "C" int other_hooks_called() {
    return hooks_called;
}

/// A loop on its own workers, and an error: three calls of hooks. Returned: the tasks that ran.
extern "C" int other_run() {
    tasks_run = 0;
    halide_do_par_for(
        nullptr,
        [](void *, int, uint8_t *) {
            tasks_run++;
            return 0;
        },
        0, 100, nullptr);
    halide_free(nullptr, halide_malloc(nullptr, 100));
    halide_error(nullptr, "an error");
    return tasks_run;
}
