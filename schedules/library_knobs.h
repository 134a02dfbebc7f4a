// What the library does beside its kernels: knobs of no variant, which schedules/tuned/library.params sets.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_LIBRARY_KNOBS(SCHEDULE, HOST) \
    HOST(copy_task_bytes, 256 << 10, 1, 1 << 30, "bytes that a task of a copy or a conversion writes: enough to wake a thread for") \
    HOST(clear_run_bytes, 1024, 1, 1 << 20, "axes of a tensor that is cleared are joined up to so many bytes: few calls, and enough of them for threads") \
    HOST(kept_mib, 256, 0, 1 << 20, "MiB of memory of all threads together that is kept for the next calls, at most")
// clang-format on

DEFORMKIT_KNOBS(library, Library, DEFORMKIT_LIBRARY_KNOBS)

}  // namespace deformkit
