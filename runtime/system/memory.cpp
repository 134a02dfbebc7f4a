#include "runtime/system/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include "deformkit/deformkit.h"
#include "runtime/system/library_knobs.h"
#include "runtime/system/workspace.h"

namespace deformkit {

/// In front of the block.
struct KeptBlock::Header {
    size_t bytes;  // with this header
    bool mapped;   // not allocated
    bool counted;  // in `kept_bytes`, in use or not
};

namespace {

using Header = KeptBlock::Header;

constexpr size_t kHeader = kScratchAlignment;
static_assert(sizeof(Header) <= kHeader);
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapped = size_t{1} << 20;  // from here on blocks are mapped: what is freed may stay with malloc

/// At most an eighth more, so that a call of a slightly larger shape finds room.
size_t rounded(size_t bytes) {
    return align_up(bytes, std::max<size_t>(kScratchAlignment, (size_t{1} << (63 - __builtin_clzll(bytes))) / 8));
}

/// Gathers over tens of megabytes miss the TLB with small pages. Only advice: failure does no harm.
void *map_huge(size_t bytes) noexcept {
    void *memory = mmap(nullptr, bytes + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return memory;
    }
    auto *begin = static_cast<unsigned char *>(memory);
    const size_t before = align_up(reinterpret_cast<uintptr_t>(begin), kHugePage) - reinterpret_cast<uintptr_t>(begin);
    if (before > 0) {
        munmap(begin, before);
    }
    munmap(begin + before + bytes, kHugePage - before);
    madvise(begin + before, bytes, MADV_HUGEPAGE);
    return begin + before;
}

// ---- what is kept ------------------------------------------------------------------------------------------------------------

// A block for each caller's thread, or for as many as there are places. They take turns where there are more.
constexpr unsigned kPlaces = 64;
struct alignas(64) Place {
    std::atomic<Header *> block{nullptr};

    Header *take() noexcept {
        return block.load(std::memory_order_relaxed) == nullptr ? nullptr : block.exchange(nullptr, std::memory_order_acquire);
    }
    bool put(Header *released) noexcept {
        Header *none = nullptr;
        return block.compare_exchange_strong(none, released, std::memory_order_release, std::memory_order_relaxed);
    }
};
Place places[kPlaces];
std::atomic<size_t> kept_bytes{0};  // of blocks that are kept, or will be once they are released
std::atomic<unsigned> threads_seen{0};
thread_local unsigned own_number = 0;

Place &place(unsigned i) {
    if (own_number == 0) {
        own_number = threads_seen.fetch_add(1, std::memory_order_relaxed) % kPlaces + 1;
    }
    return places[(own_number - 1 + i) % kPlaces];
}

size_t most_kept() {
    return static_cast<size_t>(library_knobs().kept_mib) << 20;
}

/// Whether the block may be kept: then it counts from now on.
bool count(Header *block) noexcept {
    const size_t most = most_kept();
    size_t bytes = kept_bytes.load(std::memory_order_relaxed);
    while (!block->counted && bytes + block->bytes <= most) {
        block->counted = kept_bytes.compare_exchange_weak(bytes, bytes + block->bytes, std::memory_order_relaxed);
    }
    return block->counted;
}

void give_back(Header *block) noexcept {
    if (block->counted) {
        kept_bytes.fetch_sub(block->bytes, std::memory_order_relaxed);
    }
    if (block->mapped) {
        munmap(block, block->bytes);
    } else {
        std::free(block);
    }
}

Header *allocate(size_t bytes) noexcept {
    void *memory = nullptr;
    if (bytes < kMapped) {
        bytes = align_up(bytes);
        memory = std::aligned_alloc(kScratchAlignment, bytes);
    } else if (bytes < 2 * kHugePage) {
        memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    } else {
        bytes = align_up(bytes, kHugePage);
        memory = map_huge(bytes);
    }
    return memory == nullptr || memory == MAP_FAILED ? nullptr : new (memory) Header{bytes, bytes >= kMapped, false};
}

Header *take(size_t bytes) noexcept {
    if (Header *own = place(0).take()) {
        if (own->bytes >= bytes) {
            return own;
        }
        give_back(own);
    }
    for (unsigned i = 1; i < kPlaces; i++) {
        if (Header *other = place(i).take()) {
            if (other->bytes >= bytes) {
                return other;
            }
            if (!place(i).put(other)) {
                give_back(other);
            }
        }
    }
    Header *block = allocate(rounded(bytes));
    if (block == nullptr) {
        release_memory();
        block = allocate(bytes);
    }
    // What is kept is too small for this call, and makes room where that helps.
    const bool may_be_kept = block != nullptr && block->bytes <= most_kept();
    for (unsigned i = 1; may_be_kept && i < kPlaces && !count(block); i++) {
        if (Header *other = place(i).take()) {
            give_back(other);
        }
    }
    return block;
}

void put(Header *block) noexcept {
    for (unsigned i = 0; i < kPlaces && count(block); i++) {
        if (place(i).put(block)) {
            return;
        }
    }
    give_back(block);
}

/// A library that is unloaded keeps nothing.
[[gnu::destructor(101)]] void give_all_back() {
    release_memory();
}

}  // namespace

void release_memory() noexcept {
    for (Place &place : places) {
        if (Header *block = place.take()) {
            give_back(block);
        }
    }
}

KeptBlock::KeptBlock(size_t bytes) : block_(nullptr) {
    if (bytes <= std::numeric_limits<int64_t>::max() - 2 * kHugePage) {
        block_ = take(bytes + kHeader);
    }
    if (block_ == nullptr) {
        throw std::bad_alloc();
    }
}

KeptBlock::~KeptBlock() {
    put(block_);
}

unsigned char *KeptBlock::data() const {
    return reinterpret_cast<unsigned char *>(block_) + kHeader;
}

// ---- scratch -----------------------------------------------------------------------------------------------------------------

void *system_acquire(size_t bytes) noexcept {
    // Room for a vector that starts inside and ends outside.
    size_t total = 0;
    if (__builtin_add_overflow(bytes, 2 * kScratchAlignment - 1, &total)) {
        return nullptr;
    }
    return std::aligned_alloc(kScratchAlignment, total / kScratchAlignment * kScratchAlignment);
}

void system_release(void *pointer) noexcept {
    std::free(pointer);
}

void *scratch_acquire(size_t bytes) noexcept {
    if (WorkspaceRegion *region = workspace_region()) {
        if (void *block = region->acquire(bytes); block != nullptr || region->measures()) {
            return block;
        }
    }
    return system_acquire(bytes);
}

void scratch_release(void *pointer) noexcept {
    if (pointer == nullptr) {
        return;
    }
    if (WorkspaceRegion *region = workspace_region(); region != nullptr && region->holds(pointer)) {
        region->release(pointer);
        return;
    }
    system_release(pointer);
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

void deformkit_release_memory(void) {
    deformkit::release_memory();
}
