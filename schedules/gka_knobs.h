// Geometric kernel attention: its knobs, and the sizes that kernels have code of their own for.
#pragma once

#include "schedules/knobs.h"

namespace deformkit {

// clang-format off
#define DEFORMKIT_GKA_FORWARD_KNOBS(SCHEDULE, HOST) \
    HOST(task_samples, 8192, 1, 1 << 24, "samples of a task, at least: about 20 us, to wake a thread for") \
    HOST(tasks_per_thread, 4, 1, 64, "tasks for each thread, so that all end at about the same time") \
    HOST(head_major_reads, 16, 0, 1 << 20, "cells read so often are read out of a copy of value head by head") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of value: of so many batch items at a time")

#define DEFORMKIT_GKA_BACKWARD_SAMPLES_KNOBS(SCHEDULE, HOST)

// Host knobs of the whole backward.
#define DEFORMKIT_GKA_BACKWARD_VALUE_KNOBS(SCHEDULE, HOST) \
    HOST(task_samples, 8192, 1, 1 << 24, "samples of a task, at least: about 20 us, to wake a thread for") \
    HOST(tasks_per_thread, 4, 1, 64, "tasks for each thread, so that all end at about the same time") \
    HOST(many_heads, 16, 1, 1 << 20, "from so many heads of all batch items on, a task is a head, not a map") \
    HOST(slab_bytes, 1536 << 10, 1, 1024 << 20, "and where the cells of a head take no more, so that they stay in L2") \
    HOST(head_major_reads, 16, 0, 1 << 20, "cells read so often are read out of a copy head by head, and added up in one") \
    HOST(packed_bytes, 64 << 20, 1, 1024 << 20, "copies of value: of so many batch items at a time") \
    HOST(streaming_bytes, 4 << 20, 0, 1024 << 20, "gradients as large as this are written past the caches")
// clang-format on

DEFORMKIT_KNOBS(gka_forward, GkaForward, DEFORMKIT_GKA_FORWARD_KNOBS)
DEFORMKIT_KNOBS(gka_backward_samples, GkaBackwardSamples, DEFORMKIT_GKA_BACKWARD_SAMPLES_KNOBS)
DEFORMKIT_KNOBS(gka_backward_value, GkaBackwardValue, DEFORMKIT_GKA_BACKWARD_VALUE_KNOBS)

}  // namespace deformkit
