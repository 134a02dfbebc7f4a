#include "runtime/system/log.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/system/locks.h"

namespace deformkit {

bool verbose() {
    static std::atomic<int> on{-1};
    return known_or(on, [] {
        const char *value = std::getenv("DEFORMKIT_VERBOSE");
        return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
    });
}

void log(const char *format, ...) {
    if (!verbose()) {
        return;
    }
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    std::fprintf(stderr, "deformkit: %s\n", line);
}

}  // namespace deformkit
