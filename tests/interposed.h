// The allocations of this process, counted and, when asked for, refused: malloc and its like, operator new (which is malloc), and
// mmap. A program that compiles interposed.cpp has them in place of the C library's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace deformkit::testing {

/// Not in builds whose sanitizer has an allocator of its own.
bool allocations_are_counted();

struct Allocations {
    int64_t calls = 0;       ///< that asked for memory
    int64_t live = 0;        ///< blocks that are held, less those that were held before
    int64_t live_bytes = 0;  ///< their bytes, as far as they are known, and those that are mapped
    int64_t peak_bytes = 0;
};

/// While one lives, allocations are counted, of all threads. Those from number `first_refused` on, counted from 0, are refused: only
/// that one, or all that follow as well.
class CountAllocations {
public:
    explicit CountAllocations(int64_t first_refused = std::numeric_limits<int64_t>::max(), bool and_later = false);
    ~CountAllocations();
    Allocations so_far() const;
};

}  // namespace deformkit::testing
