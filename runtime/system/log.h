#pragma once

namespace deformkit {

/// Prints one line to stderr where DEFORMKIT_VERBOSE is set to anything but 0.
[[gnu::format(printf, 1, 2)]] void log(const char *format, ...);
bool verbose();

}  // namespace deformkit
