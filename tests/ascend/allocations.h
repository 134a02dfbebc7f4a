// Counts what the process allocates: malloc and its kin in this program come with a counter.
#pragma once

namespace deformkit::testing {

/// Whether this build can count: AddressSanitizer brings a malloc of its own.
bool can_count_allocations();

/// Allocations of all threads while it lives.
class AllocationCount {
public:
    AllocationCount();
    ~AllocationCount();
    AllocationCount(const AllocationCount &) = delete;
    AllocationCount &operator=(const AllocationCount &) = delete;
    long so_far() const;
};

}  // namespace deformkit::testing
