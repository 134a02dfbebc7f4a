#include "runtime/interface/error.h"

#include <cstdio>

namespace deformkit {

namespace {

// A fixed buffer: recording a failure must not fail, least of all for want of memory.
thread_local char last_error[1024] = "";

}  // namespace

deformkit_status record_failure(deformkit_status status, const char *message) noexcept {
    std::snprintf(last_error, sizeof(last_error), "%s", message);
    return status;
}

}  // namespace deformkit

const char *deformkit_last_error(void) {
    return deformkit::last_error;
}

const char *deformkit_version(void) {
#define DEFORMKIT_TEXT(number) #number
#define DEFORMKIT_VERSION(major, minor, patch) DEFORMKIT_TEXT(major) "." DEFORMKIT_TEXT(minor) "." DEFORMKIT_TEXT(patch)
    return DEFORMKIT_VERSION(DEFORMKIT_VERSION_MAJOR, DEFORMKIT_VERSION_MINOR, DEFORMKIT_VERSION_PATCH);
}
