// The dispatch table, and all that knows of its generated lists: a program with other kernels compiles it against others.
#include <iterator>
#include <string_view>

#include "deformkit_variants.h"
#include "runtime/dispatch/variant.h"
#include "runtime/system/library_knobs.h"

namespace deformkit {

namespace {

#define DEFORMKIT_TARGET(name, supported, device_type, interface, cpu_features) \
    {#name, [] { return static_cast<bool>(supported); }, device_type, interface, cpu_features},
constexpr Target kTargets[] = {
#include "deformkit_targets.inc"
};
#undef DEFORMKIT_TARGET
static_assert(std::size(kTargets) <= kMostTargets);

template <typename Struct>
constexpr HostKnobs erase(const char *owner, Struct &values) {
    return {owner, &values, kKnobsOf<Struct>.data(), Struct::kCount,
            [](void *values, size_t i) -> int64_t & { return static_cast<Struct *>(values)->*Struct::fields()[i]; }};
}

constexpr const Target &target_named(std::string_view name) {
    for (const Target &target : kTargets) {
        if (target.name == name) {
            return target;
        }
    }
    throw std::logic_error("variants.cmake: a variant for an unknown target");
}

constexpr const StorageType &type_named(std::string_view name) {
    for (const StorageType &type : kStorageTypes) {
        if (type.name == name) {
            return type;
        }
    }
    for (const StorageType &type : kIntegerTypes) {
        if (type.name == name) {
            return type;
        }
    }
    throw std::logic_error("variants.cmake: a variant of an unknown type");
}

#define DEFORMKIT_VARIANT(operator_, pass, type, target, serves, ...) \
    operator_##_##pass##_##type##_##target##_host_knobs operator_##_##pass##_##type##_##target##_knobs{__VA_ARGS__};
#include "deformkit_variants.inc"
#undef DEFORMKIT_VARIANT

LibraryHostKnobs library_knob_values{DEFORMKIT_LIBRARY_KNOB_VALUES};

#define DEFORMKIT_VARIANT(operator_, pass, type, target, serves, ...) \
    {#operator_ "_" #pass "_" #type "_" #target,                      \
     #operator_ "_" #pass,                                            \
     #operator_ "_" #serves,                                          \
     &type_named(#type),                                              \
     &target_named(#target),                                          \
     operator_##_##pass##_##type##_##target##_argv,                   \
     erase(#operator_ "_" #pass "_" #type "_" #target, operator_##_##pass##_##type##_##target##_knobs)},
constexpr Variant kVariants[] = {
#include "deformkit_variants.inc"
};
#undef DEFORMKIT_VARIANT

}  // namespace

Table<Target> all_targets() {
    return Table(kTargets);
}

Table<Variant> all_variants() {
    return Table(kVariants);
}

const LibraryHostKnobs &library_knobs() {
    return library_knob_values;
}

std::vector<HostKnobs> all_host_knobs() {
    std::vector<HostKnobs> all{erase("library", library_knob_values)};
    for (const Variant &variant : kVariants) {
        all.push_back(variant.host_knobs);
    }
    return all;
}

}  // namespace deformkit
