#include "runtime/system/log.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace deformkit {

bool verbose() {
    static const bool on = [] {
        const char *value = std::getenv("DEFORMKIT_VERBOSE");
        return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
    }();
    return on;
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
