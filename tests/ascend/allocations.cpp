#include "tests/ascend/allocations.h"

#include <atomic>
#include <cerrno>
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DEFORMKIT_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define DEFORMKIT_ADDRESS_SANITIZER
#endif

namespace {

std::atomic<bool> counting{false};
std::atomic<long> allocations{0};

}  // namespace

#ifndef DEFORMKIT_ADDRESS_SANITIZER

// glibc keeps its own under these names for programs that bring theirs.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static void count() {
    if (counting.load(std::memory_order_relaxed)) {
        allocations++;
    }
}

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    count();
    return __libc_calloc(number, bytes);
}

void *realloc(void *block, size_t bytes) {
    count();
    return __libc_realloc(block, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    count();
    *block = __libc_memalign(alignment, bytes);
    return *block == nullptr ? ENOMEM : 0;
}
}

#endif

namespace deformkit::testing {

bool can_count_allocations() {
#ifdef DEFORMKIT_ADDRESS_SANITIZER
    return false;
#else
    return true;
#endif
}

AllocationCount::AllocationCount() {
    allocations = 0;
    counting = true;
}

AllocationCount::~AllocationCount() {
    counting = false;
}

long AllocationCount::so_far() const {
    return allocations;
}

}  // namespace deformkit::testing
