#include "runtime/dispatch/dispatch.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

#include "deformkit_variants.h"
#include "runtime/dispatch/cpu_features.h"
#include "runtime/interface/error.h"
#include "runtime/system/log.h"
#include "runtime/system/parallel.h"

namespace deformkit {

namespace {

struct Target {
    const char *name;
    bool (*supported)();
    const halide_device_interface_t *(*device)();  ///< nullptr: the CPU
    bool gpu;
};

constexpr Target kTargets[] = {
#define DEFORMKIT_TARGET(name, supported, device) \
    {#name, [] { return static_cast<bool>(supported); }, device, !std::is_null_pointer_v<decltype(device)>},
#include "deformkit_targets.inc"
#undef DEFORMKIT_TARGET
};

constexpr const Target &target_named(const char *name) {
    for (const Target &target : kTargets) {
        if (std::string_view(target.name) == name) {
            return target;
        }
    }
    throw std::logic_error("variants.cmake: a variant for an unknown target");
}

#define DEFORMKIT_VARIANT(operator_, pass, type, target) \
    {#operator_ "_" #pass "_" #type "_" #target,         \
     #operator_ "_" #pass,                               \
     #type,                                              \
     #target,                                            \
     target_named(#target).gpu,                          \
     target_named(#target).supported,                    \
     operator_##_##pass##_##type##_##target##_argv},
constexpr Variant kVariants[] = {
#include "deformkit_variants.inc"
};

constexpr Variant kCompanions[] = {
#include "deformkit_companions.inc"
#undef DEFORMKIT_VARIANT
};

// The forced target, or nullptr. Points into kTargets.
std::atomic<const char *> forced_target{nullptr};
std::atomic<bool> environment_read{false};
thread_local const char *last_variant = "";

const char *type_name(DLDataType dtype) {
    if (dtype.code == kDLFloat) {
        return dtype.bits == 32 ? "f32" : dtype.bits == 16 ? "f16" : dtype.bits == 64 ? "f64" : nullptr;
    }
    return dtype.code == kDLBfloat && dtype.bits == 16 ? "bf16" : nullptr;
}

void force_target(const char *name, const char *argument) {
    const char *found = nullptr;
    std::string known;
    for (const Target &target : kTargets) {
        known += (known.empty() ? "" : ", ") + std::string(target.name);
        if (name != nullptr && std::strcmp(name, target.name) == 0) {
            found = target.name;
        }
    }
    if (name != nullptr && found == nullptr) {
        throw Failure(DEFORMKIT_INVALID_VALUE, std::string(argument) + ": expected one of " + known + ", got " + name);
    }
    environment_read.store(true);
    forced_target.store(found);
}

void read_environment() {
    if (!environment_read.load()) {
        const char *name = std::getenv("DEFORMKIT_TARGET");
        force_target(name != nullptr && *name != '\0' ? name : nullptr, "DEFORMKIT_TARGET");
    }
}

/// Whether a device of this kind answers. Asked once: drivers take their time.
bool device_answers(const char *target) {
    static std::mutex mutex;
    static std::map<std::string, bool> answers;
    std::lock_guard<std::mutex> lock(mutex);
    const auto [entry, is_new] = answers.try_emplace(target, false);
    if (is_new) {
        halide_dimension_t dimension(0, 1, 1);
        halide_buffer_t buffer{};
        buffer.type = halide_type_t(halide_type_float, 32);
        buffer.dimensions = 1;
        buffer.dim = &dimension;
        entry->second = halide_device_malloc(nullptr, &buffer, target_named(target).device()) == 0;
        halide_device_free(nullptr, &buffer);
    }
    return entry->second;
}

/// Why a row is passed over, or nullptr.
const char *rejection(const Variant &variant, const char *forced) {
    if (forced != nullptr && std::strcmp(forced, variant.target) != 0) {
        return "another target is forced";
    }
    if (!variant.supported()) {
        return "this CPU lacks its instructions";
    }
    if (variant.gpu && forced == nullptr) {
        return "the tensors are in host memory";
    }
    if (variant.gpu && !device_answers(variant.target)) {
        return "no such device answers";
    }
    return nullptr;
}

deformkit_status status_of(int halide_error) {
    switch (halide_error) {
        case halide_error_code_out_of_memory:
            return DEFORMKIT_OUT_OF_MEMORY;
        case halide_error_code_buffer_allocation_too_large:
        case halide_error_code_buffer_extents_too_large:
            return DEFORMKIT_NO_VARIANT;
        case halide_error_code_no_device_interface:
        case halide_error_code_device_interface_no_device:
        case halide_error_code_device_malloc_failed:
        case halide_error_code_device_free_failed:
        case halide_error_code_device_sync_failed:
        case halide_error_code_device_run_failed:
        case halide_error_code_device_buffer_copy_failed:
        case halide_error_code_copy_to_host_failed:
        case halide_error_code_copy_to_device_failed:
        case halide_error_code_gpu_device_error:
        case halide_error_code_symbol_not_found:
        case halide_error_code_generic_error:
            return DEFORMKIT_DEVICE_FAILURE;
        default:
            return DEFORMKIT_INTERNAL_ERROR;
    }
}

void require_success(const Variant &variant, int result) {
    if (result != 0) {
        const deformkit_status status =
            variant.gpu || status_of(result) != DEFORMKIT_DEVICE_FAILURE ? status_of(result) : DEFORMKIT_INTERNAL_ERROR;
        throw Failure(status, std::string(variant.name) + ": " + last_halide_error());
    }
}

}  // namespace

const Variant &choose_variant(const char *operation, DLDataType dtype) {
    initialise_halide();
    read_environment();
    const char *forced = forced_target.load();
    const char *type = type_name(dtype);
    const auto serves = [&](const Variant &variant) {
        return type != nullptr && std::strcmp(variant.operation, operation) == 0 && std::strcmp(variant.type, type) == 0;
    };
    for (const Variant &variant : kVariants) {
        if (serves(variant)) {
            const char *reason = rejection(variant, forced);
            if (reason == nullptr) {
                return variant;
            }
            log("%s: rejected: %s", variant.name, reason);
        }
    }
    std::string reasons;
    for (const Variant &variant : kVariants) {
        if (serves(variant)) {
            reasons += std::string("; ") + variant.name + ": " + rejection(variant, forced);
        }
    }
    throw Failure(DEFORMKIT_NO_VARIANT, std::string(operation) + ": no variant serves " + (type ? type : "this type") +
                                            (forced ? std::string(" on target ") + forced : " on this machine") + reasons);
}

const Variant *companion(const Variant &variant, const char *operation) {
    const auto find = [&](const auto &table) -> const Variant * {
        for (const Variant &other : table) {
            if (std::strcmp(other.operation, operation) == 0 && std::strcmp(other.type, variant.type) == 0 &&
                std::strcmp(other.target, variant.target) == 0) {
                return &other;
            }
        }
        return nullptr;
    };
    const Variant *found = find(kCompanions);
    return found != nullptr ? found : find(kVariants);
}

void run_kernel(const Variant &variant, void **args, std::initializer_list<halide_buffer_t *> buffers) {
    log("%s: runs", variant.name);
    if (!variant.gpu) {
        require_success(variant, variant.run(args));
        return;
    }
    struct DeviceCopies {
        std::initializer_list<halide_buffer_t *> buffers;
        ~DeviceCopies() {
            for (halide_buffer_t *buffer : buffers) {
                halide_device_free(nullptr, buffer);
            }
        }
    } copies{buffers};
    for (halide_buffer_t *buffer : buffers) {
        buffer->set_host_dirty(true);
    }
    halide_buffer_t *output = *(buffers.end() - 1);
    output->set_host_dirty(false);
    require_success(variant, variant.run(args));
    require_success(variant, halide_copy_to_host(nullptr, output));
}

void set_last_variant(const char *name) {
    last_variant = name;
}

}  // namespace deformkit

const char *deformkit_last_variant(void) {
    return deformkit::last_variant;
}

deformkit_status deformkit_set_target(const char *target) {
    return deformkit::guarded([&] { deformkit::force_target(target, "target"); });
}
