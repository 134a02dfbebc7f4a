#include "compat/ascend/status.h"

#include <cstdio>
#include <cstring>

namespace deformkit::ascend {

namespace {

// Fixed buffers: recording a failure must not fail, least of all for want of memory.
constexpr size_t kMessageBytes = 1024;
thread_local char latest[kMessageBytes] = "";
thread_local char handed_out[kMessageBytes];

}  // namespace

int record(int code, const char *message) noexcept {
    std::snprintf(latest, sizeof(latest), "%s", message);
    return code;
}

}  // namespace deformkit::ascend

const char *aclGetRecentErrMsg(void) {
    using namespace deformkit::ascend;
    if (latest[0] == '\0') {
        return nullptr;
    }
    std::memcpy(handed_out, latest, sizeof(handed_out));
    latest[0] = '\0';
    return handed_out;
}
