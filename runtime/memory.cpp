#include "memory.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "workspace.h"

namespace deformkit {

namespace {

constexpr size_t kAlignment = kScratchAlignment;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMaxCached = size_t{256} << 20;  // beyond this, released blocks go back to the system
constexpr int kClasses = 4 * 48;

struct Header {
    size_t bytes;  // usable, after the header
    int size_class;
    Header *next;
};
static_assert(sizeof(Header) <= kAlignment);

/// Four size classes per power of two, so that at most a quarter of a block is waste.
std::pair<int, size_t> class_of(size_t bytes) {
    size_t size = 1024;
    int index = 0;
    while (index + 4 < kClasses && size * 2 < bytes) {
        size *= 2;
        index += 4;
    }
    const size_t step = size / 4;
    int quarter = 0;
    size_t rounded = size;
    while (rounded < bytes && quarter < 4) {
        rounded += step;
        quarter++;
    }
    return {index + quarter, rounded < bytes ? bytes : rounded};
}

struct Cache {
    std::mutex mutex;
    std::array<Header *, kClasses + 8> free{};
    size_t cached = 0;
};

Cache &cache() {
    static Cache *instance = new Cache;  // never destroyed: worker threads may outlive static destructors
    return *instance;
}

}  // namespace

void *scratch_acquire(size_t bytes) noexcept {
    if (WorkspaceRegion *region = workspace_region()) {
        return region->acquire(bytes);
    }
    const auto [size_class, rounded] = class_of(bytes);
    Cache &c = cache();
    {
        std::lock_guard<std::mutex> lock(c.mutex);
        Header *&head = c.free[size_class];
        if (head != nullptr && head->bytes >= bytes) {
            Header *block = head;
            head = block->next;
            c.cached -= block->bytes;
            return reinterpret_cast<unsigned char *>(block) + kAlignment;
        }
    }
    const bool huge = rounded >= 2 * kHugePage;
    const size_t alignment = huge ? kHugePage : kAlignment;
    size_t total = rounded + 2 * kAlignment;  // the header, and room for a vector that starts inside and ends outside
    total = (total + alignment - 1) / alignment * alignment;
    if (total < rounded) {
        return nullptr;
    }
    void *memory = std::aligned_alloc(alignment, total);
    if (memory == nullptr) {
        return nullptr;
    }
    if (huge) {
        // Gathers over tens of megabytes miss the TLB with small pages. Only advice: failure does no harm.
        madvise(memory, total, MADV_HUGEPAGE);
    }
    Header *block = new (memory) Header{rounded, size_class, nullptr};
    return reinterpret_cast<unsigned char *>(block) + kAlignment;
}

void scratch_release(void *pointer) noexcept {
    if (pointer == nullptr) {
        return;
    }
    if (WorkspaceRegion *region = workspace_region(); region != nullptr && region->holds(pointer)) {
        region->release(pointer);
        return;
    }
    Header *block = reinterpret_cast<Header *>(static_cast<unsigned char *>(pointer) - kAlignment);
    Cache &c = cache();
    {
        std::lock_guard<std::mutex> lock(c.mutex);
        if (c.cached + block->bytes <= kMaxCached) {
            block->next = c.free[block->size_class];
            c.free[block->size_class] = block;
            c.cached += block->bytes;
            return;
        }
    }
    std::free(block);
}

Scratch::Scratch(size_t bytes) : block_(scratch_acquire(bytes)) {
    if (block_ == nullptr) {
        throw std::bad_alloc();
    }
}

Scratch &Scratch::operator=(Scratch &&other) noexcept {
    std::swap(block_, other.block_);
    return *this;
}

}  // namespace deformkit
