#include "tests/interposed.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DEFORMKIT_SANITIZER_ALLOCATES
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DEFORMKIT_SANITIZER_ALLOCATES
#endif

namespace deformkit::testing {
namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> calls{0}, live{0}, live_bytes{0}, peak_bytes{0};
std::atomic<int64_t> first_refused{0}, last_refused{0};

}  // namespace

CountAllocations::CountAllocations(int64_t first, bool and_later) {
    calls = live = live_bytes = peak_bytes = 0;
    first_refused = first;
    last_refused = and_later ? std::numeric_limits<int64_t>::max() : first;
    counting = true;
}

CountAllocations::~CountAllocations() {
    counting = false;
}

Allocations CountAllocations::so_far() const {
    return {calls, live, live_bytes, peak_bytes};
}

}  // namespace deformkit::testing

#ifdef DEFORMKIT_SANITIZER_ALLOCATES

bool deformkit::testing::allocations_are_counted() {
    return false;
}

#else

bool deformkit::testing::allocations_are_counted() {
    return true;
}

namespace {

using namespace deformkit::testing;

bool refused() {
    if (!counting) {
        return false;
    }
    const int64_t call = calls++;
    if (call < first_refused || call > last_refused) {
        return false;
    }
    errno = ENOMEM;
    return true;
}

void count_bytes(int64_t bytes) {
    const int64_t now = live_bytes += bytes;
    int64_t peak = peak_bytes;
    while (peak < now && !peak_bytes.compare_exchange_weak(peak, now)) {
    }
}

void *counted(void *block) {
    if (counting && block != nullptr) {
        live++;
        count_bytes(static_cast<int64_t>(malloc_usable_size(block)));
    }
    return block;
}

}  // namespace

extern "C" {

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

void *malloc(size_t bytes) {
    return refused() ? nullptr : counted(__libc_malloc(bytes));
}

void *calloc(size_t count, size_t bytes) {
    return refused() ? nullptr : counted(__libc_calloc(count, bytes));
}

void free(void *block) {
    if (counting && block != nullptr) {
        live--;
        live_bytes -= static_cast<int64_t>(malloc_usable_size(block));
    }
    __libc_free(block);
}

void *realloc(void *block, size_t bytes) {
    if (block == nullptr) {
        return malloc(bytes);
    }
    const size_t before = malloc_usable_size(block);
    void *moved = refused() ? nullptr : __libc_realloc(block, bytes);
    if (counting && moved != nullptr) {
        count_bytes(static_cast<int64_t>(malloc_usable_size(moved)) - static_cast<int64_t>(before));
    }
    return moved;
}

void *memalign(size_t alignment, size_t bytes) {
    return refused() ? nullptr : counted(__libc_memalign(alignment, bytes));
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    return memalign(alignment, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    void *found = memalign(alignment, bytes);
    if (found == nullptr) {
        return ENOMEM;
    }
    *block = found;
    return 0;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (refused()) {
        return MAP_FAILED;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): that is how the system says it
    void *memory = reinterpret_cast<void *>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
    if (counting && memory != MAP_FAILED) {
        count_bytes(static_cast<int64_t>(bytes));
    }
    return memory;
}

int munmap(void *address, size_t bytes) {
    if (counting) {
        live_bytes -= static_cast<int64_t>(bytes);
    }
    return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

}  // extern "C"

#endif
