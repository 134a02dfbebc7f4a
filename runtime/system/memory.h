// Scratch memory: kept between calls, since fresh pages cost more than most calls take, or taken from a caller's workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

namespace deformkit {

/// Halide's vectors may touch a whole aligned vector beyond the end.
constexpr size_t kScratchAlignment = 128;

/// At least `bytes`, aligned to kScratchAlignment; nullptr when there is no memory, or no more in the workspace that this
/// thread works in. Never throws.
void *scratch_acquire(size_t bytes) noexcept;
void scratch_release(void *pointer) noexcept;

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

template <typename T>
struct ScratchAllocator {
    using value_type = T;

    ScratchAllocator() = default;
    template <typename U>
    ScratchAllocator(const ScratchAllocator<U> &) {}

    T *allocate(size_t n) {
        void *block = n <= SIZE_MAX / sizeof(T) ? scratch_acquire(n * sizeof(T)) : nullptr;
        if (block == nullptr) {
            throw std::bad_alloc();
        }
        return static_cast<T *>(block);
    }
    void deallocate(T *block, size_t) noexcept { scratch_release(block); }

    bool operator==(const ScratchAllocator &) const { return true; }
    bool operator!=(const ScratchAllocator &) const { return false; }
};

/// Where its size is known in advance, reserve() saves room in a workspace.
template <typename T>
using ScratchVector = std::vector<T, ScratchAllocator<T>>;

}  // namespace deformkit
