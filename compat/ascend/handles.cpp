#include "compat/ascend/handles.h"

#include <atomic>

namespace deformkit::ascend {

uintptr_t next_handle() {
    static std::atomic<uintptr_t> next{0};
    constexpr uintptr_t kStep = 16;  // aligned, as programs may expect of what looks like a pointer
    return next += kStep;
}

}  // namespace deformkit::ascend
