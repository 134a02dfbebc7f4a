// Where temporaries lie. A call takes all of its memory at once, before it writes anything, as one block (KeptBlock) that is
// kept for the next call: fresh pages cost more than most calls take. Scratch is handed out of that block: see workspace.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

namespace deformkit {

/// Halide's vectors may touch a whole aligned vector beyond the end.
constexpr size_t kScratchAlignment = 128;

inline size_t align_up(size_t bytes, size_t alignment = kScratchAlignment) {
    return (bytes + alignment - 1) / alignment * alignment;
}

/// At least `bytes`, aligned to kScratchAlignment; nullptr when there is no memory. Never throws. From the workspace that this
/// thread works in; where there is none, or it has no room, from the system.
void *scratch_acquire(size_t bytes) noexcept;
void scratch_release(void *pointer) noexcept;

/// The same from the system, whatever this thread works in.
void *system_acquire(size_t bytes) noexcept;
void system_release(void *pointer) noexcept;

/// Owns one block; throws std::bad_alloc.
class Scratch {
public:
    Scratch() = default;
    explicit Scratch(size_t bytes);
    ~Scratch() { scratch_release(block_); }
    Scratch(Scratch &&other) noexcept : block_(other.block_) { other.block_ = nullptr; }
    Scratch &operator=(Scratch &&other) noexcept;
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;

    unsigned char *data() const { return static_cast<unsigned char *>(block_); }

private:
    void *block_ = nullptr;
};

/// Memory that is kept when it is released, for this thread first: another's would lie in the cache of another core. All that is
/// kept is within the library's knob kept_mib. Threads only ever exchange pointers: nobody waits, and a fork leaves nothing
/// locked.
class KeptBlock {
public:
    struct Header;

    /// Throws std::bad_alloc.
    explicit KeptBlock(size_t bytes);
    ~KeptBlock();
    KeptBlock(const KeptBlock &) = delete;
    KeptBlock &operator=(const KeptBlock &) = delete;

    unsigned char *data() const;

private:
    Header *block_;
};

/// Gives back to the system what is kept and no call is using.
void release_memory() noexcept;

/// The temporaries of one call: room for them is reserved while the call is planned, and is one block while it runs.
class CallMemory {
public:
    /// Where the room begins. Whatever the shapes claim: bytes that no machine has are std::bad_alloc.
    size_t reserve(int64_t count, int64_t element_bytes);
    size_t bytes() const { return bytes_; }

    void open() { block_ = bytes_ == 0 ? Scratch() : Scratch(bytes_); }
    void close() { block_ = Scratch(); }
    unsigned char *at(size_t begin) const { return block_.data() + begin; }

private:
    size_t bytes_ = 0;
    Scratch block_;
};

/// An array in a call's memory, of a size that is known only when the call runs, but not its most.
template <typename T>
class CallArray {
public:
    CallArray() = default;
    CallArray(CallMemory &memory, int64_t most) : memory_(&memory), begin_(memory.reserve(most, sizeof(T))) {}

    T *data() const { return reinterpret_cast<T *>(memory_->at(begin_)); }
    T *begin() const { return data(); }
    T *end() const { return data() + size_; }
    T &operator[](int64_t i) const { return data()[i]; }
    int64_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T &back() const { return data()[size_ - 1]; }
    void clear() { size_ = 0; }
    void resize(int64_t size) { size_ = size; }
    void push_back(const T &item) { new (data() + size_++) T(item); }

private:
    const CallMemory *memory_ = nullptr;
    size_t begin_ = 0;
    int64_t size_ = 0;
};

}  // namespace deformkit
