// What the system says of this process.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace deformkit::testing {

inline int threads_of_process() {
    return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

struct ProcessBytes {
    int64_t mapped = 0, resident = 0;
};

inline ProcessBytes bytes_of_process() {
    ProcessBytes pages;
    std::ifstream("/proc/self/statm") >> pages.mapped >> pages.resident;
    const int64_t page = sysconf(_SC_PAGESIZE);
    return {pages.mapped * page, pages.resident * page};
}

inline long resident_kib() {
    return static_cast<long>(bytes_of_process().resident >> 10);
}

}  // namespace deformkit::testing
