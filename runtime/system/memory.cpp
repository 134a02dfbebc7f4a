#include "runtime/system/memory.h"

#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "runtime/system/locks.h"
#include "runtime/system/workspace.h"

namespace deformkit {

namespace {

constexpr size_t kAlignment = kScratchAlignment;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMaxCached = size_t{256} << 20;  // beyond this, released blocks go back to the system
constexpr size_t kMaxOwn = size_t{8} << 20;       // of these by each thread
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

/// Free blocks by size class.
struct FreeBlocks {
    std::array<Header *, kClasses + 8> lists{};
    size_t bytes = 0;

    Header *take(int size_class, size_t wanted) {
        Header *block = lists[size_class];
        if (block == nullptr || block->bytes < wanted) {
            return nullptr;
        }
        lists[size_class] = block->next;
        bytes -= block->bytes;
        return block;
    }
    bool put(Header *block, size_t limit) {
        if (bytes + block->bytes > limit) {
            return false;
        }
        block->next = lists[block->size_class];
        lists[block->size_class] = block;
        bytes += block->bytes;
        return true;
    }
};

FreeBlocks shared_blocks;  // guarded by Lock::kMemory; never destroyed: threads may outlive static destructors
static_assert(std::is_trivially_destructible_v<FreeBlocks>);

void give_back(Header *block) {
    {
        std::lock_guard<std::mutex> lock(mutex_of(Lock::kMemory));
        if (shared_blocks.put(block, kMaxCached)) {
            return;
        }
    }
    std::free(block);
}

/// What a thread has released it takes again: another's would still lie in the cache of another core.
struct OwnBlocks {
    FreeBlocks blocks;
    bool ended = false;

    // Other destructors of this thread may still release scratch.
    struct End {
        OwnBlocks &own;
        ~End() {
            own.ended = true;
            for (Header *&list : own.blocks.lists) {
                while (list != nullptr) {
                    Header *block = list;
                    list = block->next;
                    give_back(block);
                }
            }
        }
    };
};

OwnBlocks &own_blocks() {
    static_assert(std::is_trivially_destructible_v<OwnBlocks>);
    thread_local OwnBlocks own;
    thread_local OwnBlocks::End end{own};
    return own;
}

}  // namespace

void *scratch_acquire(size_t bytes) noexcept {
    if (WorkspaceRegion *region = workspace_region()) {
        if (void *block = region->acquire(bytes)) {
            return block;
        }
    }
    const auto [size_class, rounded] = class_of(bytes);
    if (Header *block = own_blocks().blocks.take(size_class, bytes)) {
        return reinterpret_cast<unsigned char *>(block) + kAlignment;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_of(Lock::kMemory));
        if (Header *block = shared_blocks.take(size_class, bytes)) {
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
    OwnBlocks &own = own_blocks();
    if (own.ended || !own.blocks.put(block, kMaxOwn)) {
        give_back(block);
    }
}

Scratch::Scratch(size_t bytes) : block_(scratch_acquire(bytes)) {
    if (block_ == nullptr) {
        throw std::bad_alloc();
    }
}

size_t CallMemory::reserve(int64_t count, int64_t element_bytes) {
    // A vector may start inside and end outside.
    size_t bytes = 0;
    if (count < 0 || __builtin_mul_overflow(count, element_bytes, &bytes) ||
        __builtin_add_overflow(bytes, 2 * kScratchAlignment - 1, &bytes)) {
        throw std::bad_alloc();
    }
    const size_t begin = bytes_;
    if (__builtin_add_overflow(bytes_, bytes / kScratchAlignment * kScratchAlignment, &bytes_)) {
        throw std::bad_alloc();
    }
    return begin;
}

Scratch &Scratch::operator=(Scratch &&other) noexcept {
    std::swap(block_, other.block_);
    return *this;
}

}  // namespace deformkit
