#include "runtime/dispatch/dispatch.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/dispatch/knobs.h"
#include "runtime/interface/error.h"
#include "runtime/system/log.h"
#include "runtime/tensor/types.h"

namespace deformkit {

namespace {

constexpr Target kUnread{};  // DEFORMKIT_TARGET has not been looked at, nor a target been set instead
std::atomic<const Target *> forced_target{&kUnread};
std::atomic<const Variant *> forced_kernel{nullptr};
thread_local const char *last_variant = "";

const Target *target_named(const char *name, const char *argument) {
    const Target *found = nullptr;
    std::string known;
    for (const Target &target : all_targets()) {
        known += (known.empty() ? "" : ", ") + std::string(target.name);
        if (name != nullptr && std::strcmp(name, target.name) == 0) {
            found = &target;
        }
    }
    if (name != nullptr && found == nullptr) {
        throw Failure(DEFORMKIT_INVALID_VALUE, std::string(argument) + ": expected one of " + known + ", got " + name);
    }
    return found;
}

/// nullptr: free choice.
const Target *forced() {
    const Target *target = forced_target.load();
    if (target == &kUnread) {
        const char *name = std::getenv("DEFORMKIT_TARGET");
        const Target *wanted = target_named(name != nullptr && *name != '\0' ? name : nullptr, "DEFORMKIT_TARGET");
        // Unless another thread has set one meanwhile.
        target = forced_target.compare_exchange_strong(target, wanted) ? wanted : target;
    }
    return target;
}

/// Why a row is passed over, or nullptr.
const char *rejection(const Variant &variant, const Target *forced, DLDeviceType device) {
    if (forced != nullptr && forced != variant.target) {
        return "another target is forced";
    }
    if (!variant.target->supported()) {
        return "this CPU lacks its instructions";
    }
    if (variant.target->device_type != device) {
        return device == kDLCPU ? "the tensors are in host memory" : "the tensors are in a GPU's memory";
    }
    return nullptr;
}

}  // namespace

const Target *forced_gpu() {
    const Target *target = forced();
    return target != nullptr && target->is_gpu() ? target : nullptr;
}

const Variant &choose_variant(const char *operation, DLDataType dtype, const Target *target, DLDeviceType device) {
    read_user_knobs();
    target = target != nullptr ? target : forced();
    const StorageType *type = row_type(dtype);
    const auto serves = [&](const Variant &variant) {
        return variant.type == type && std::strcmp(variant.operation, operation) == 0;
    };
    for (const Variant &variant : all_variants()) {
        if (serves(variant)) {
            const char *reason = rejection(variant, target, device);
            if (reason == nullptr) {
                return variant;
            }
            log("%s: rejected: %s", variant.name, reason);
        }
    }
    std::string reasons;
    for (const Variant &variant : all_variants()) {
        if (serves(variant)) {
            reasons += std::string("; ") + variant.name + ": " + rejection(variant, target, device);
        }
    }
    throw Failure(DEFORMKIT_NO_VARIANT, std::string(operation) + ": no variant serves " + (type ? type->name : "this type") +
                                            (target ? std::string(" on target ") + target->name : " on this machine") +
                                            reasons);
}

const Variant *companion(const Variant &variant, const char *operation) {
    for (const Variant &other : all_variants()) {
        if (other.target == variant.target && other.type == variant.type && std::strcmp(other.operation, operation) == 0) {
            return &other;
        }
    }
    return nullptr;
}

const Variant *in_place_of(const Variant &variant, const char *operation, bool pays) {
    const Variant *forced = forced_kernel.load();
    if (forced == &variant || (forced == nullptr && !pays)) {
        return nullptr;
    }
    const Variant *other = companion(variant, operation);
    return pays || forced == other ? other : nullptr;
}

void force_kernel(const char *name) {
    const Variant *found = nullptr;
    for (const Variant &variant : all_variants()) {
        if (name != nullptr && std::strcmp(variant.name, name) == 0) {
            found = &variant;
        }
    }
    if (name != nullptr && found == nullptr) {
        throw Failure(DEFORMKIT_INVALID_VALUE, std::string("kernel: expected the name of a variant, got ") + name);
    }
    forced_target.store(found != nullptr ? found->target : nullptr);
    forced_kernel.store(found);
}

void set_last_variant(const char *name) {
    last_variant = name;
}

}  // namespace deformkit

const char *deformkit_last_variant(void) {
    return deformkit::last_variant;
}

deformkit_status deformkit_set_target(const char *target) {
    return deformkit::guarded([&] { deformkit::forced_target.store(deformkit::target_named(target, "target")); });
}
