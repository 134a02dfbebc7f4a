// Device and host memory, which here is the same, and copies.

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>

#include "acl/acl_rt.h"
#include "compat/ascend/device.h"
#include "compat/ascend/status.h"
#include "compat/ascend/stream.h"

namespace deformkit::ascend {

namespace {

enum class Kind { kDevice, kHost };

/// What has been given out, so that freeing anything else is refused.
struct Blocks {
    std::mutex mutex;
    std::unordered_map<void *, Kind> given;
};

Blocks &blocks() {
    static auto *all = new Blocks;
    return *all;
}

void allocate(void **pointer, size_t size, Kind kind) {
    constexpr size_t kCacheLine = 64, kHugePage = size_t{2} << 20, kAddressSpace = size_t{1} << 47;
    if (pointer == nullptr) {
        throw Error(ACL_ERROR_INVALID_PARAM, "expected where to put the memory, got NULL");
    }
    if (size == 0) {
        throw Error(ACL_ERROR_INVALID_PARAM, "size: expected more than 0 bytes");
    }
    if (size >= kAddressSpace) {
        throw std::bad_alloc();
    }
    const bool huge = size >= 2 * kHugePage;
    const size_t alignment = huge ? kHugePage : kCacheLine;
    const size_t bytes = (size + alignment - 1) / alignment * alignment;
    std::unique_ptr<void, void (*)(void *)> memory(std::aligned_alloc(alignment, bytes), std::free);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    if (huge) {
        madvise(memory.get(), bytes, MADV_HUGEPAGE);  // only advice
    }
    std::lock_guard<std::mutex> lock(blocks().mutex);
    blocks().given.emplace(memory.get(), kind);
    *pointer = memory.release();
}

void release(void *pointer, Kind kind, const char *allocator) {
    {
        std::lock_guard<std::mutex> lock(blocks().mutex);
        const auto found = blocks().given.find(pointer);
        if (found == blocks().given.end() || found->second != kind) {
            throw Error(ACL_ERROR_INVALID_PARAM,
                        std::string("expected memory from ") + allocator + " that has not been freed, got something else");
        }
        blocks().given.erase(found);
    }
    std::free(pointer);
}

void require_kind(aclrtMemcpyKind kind) {
    if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_DEFAULT) {
        throw Error(ACL_ERROR_INVALID_PARAM, "kind: expected one of aclrtMemcpyKind, got " + std::to_string(kind));
    }
}

void require_room(const void *destination, size_t room, const char *room_name, size_t count) {
    if (count > room) {
        throw Error(ACL_ERROR_INVALID_PARAM, std::string(room_name) + ": expected at least count, " + std::to_string(count) +
                                                 " bytes, got " + std::to_string(room));
    }
    if (destination == nullptr && count > 0) {
        throw Error(ACL_ERROR_INVALID_PARAM, "destination: expected memory, got NULL");
    }
}

struct Copy : Job {
    void *destination;
    const void *source;
    size_t count;

    Copy(void *destination, size_t room, const void *source, size_t count, aclrtMemcpyKind kind)
        : destination(destination), source(source), count(count) {
        require_kind(kind);
        require_room(destination, room, "destMax", count);
        if (source == nullptr && count > 0) {
            throw Error(ACL_ERROR_INVALID_PARAM, "src: expected memory, got NULL");
        }
    }
    void run(void *) override {
        if (count > 0) {
            std::memmove(destination, source, count);
        }
    }
};

struct Fill : Job {
    void *destination;
    int value;
    size_t count;

    Fill(void *destination, size_t room, int value, size_t count) : destination(destination), value(value), count(count) {
        require_room(destination, room, "maxCount", count);
    }
    void run(void *) override {
        if (count > 0) {
            std::memset(destination, value, count);
        }
    }
};

}  // namespace

}  // namespace deformkit::ascend

using namespace deformkit::ascend;

aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy) {
    return returning(kAclCodes, [&] {
        constexpr int kBandWidths = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH;
        if (policy < 0 || (policy & ~kBandWidths) > ACL_MEM_MALLOC_NORMAL_ONLY_P2P) {
            throw Error(ACL_ERROR_INVALID_PARAM, "policy: expected one of aclrtMemMallocPolicy, got " + std::to_string(policy));
        }
        require_device();
        allocate(devPtr, size, Kind::kDevice);
    });
}

aclError aclrtFree(void *devPtr) {
    return returning(kAclCodes, [&] { release(devPtr, Kind::kDevice, "aclrtMalloc"); });
}

aclError aclrtMallocHost(void **hostPtr, size_t size) {
    return returning(kAclCodes, [&] { allocate(hostPtr, size, Kind::kHost); });
}

aclError aclrtFreeHost(void *hostPtr) {
    return returning(kAclCodes, [&] { release(hostPtr, Kind::kHost, "aclrtMallocHost"); });
}

aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind) {
    return returning(kAclCodes, [&] { Copy(dst, destMax, src, count, kind).run(nullptr); });
}

aclError aclrtMemcpyAsync(void *dst, size_t destMax, const void *src, size_t count, aclrtMemcpyKind kind, aclrtStream stream) {
    return returning(kAclCodes,
                     [&] { stream_of(stream)->submit(std::make_shared<Copy>(dst, destMax, src, count, kind), nullptr); });
}

aclError aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count) {
    return returning(kAclCodes, [&] { Fill(devPtr, maxCount, value, count).run(nullptr); });
}

aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
    return returning(kAclCodes,
                     [&] { stream_of(stream)->submit(std::make_shared<Fill>(devPtr, maxCount, value, count), nullptr); });
}
