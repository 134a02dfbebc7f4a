// The rows of variants.cmake, as the benchmarks see them.
#pragma once

#include <dlpack/dlpack.h>

#include <string>
#include <vector>

namespace deformkit::bench {

struct StorageType {
    const char *name, *long_name;
    int dlpack_code, bits, mantissa_bits;
};

/// The first is what the others are compared with.
constexpr StorageType kStorageTypes[] = {
#define DEFORMKIT_TYPE(name, enumerator, long_name, dlpack_code, bits, arithmetic, exponent, mantissa) \
    {#name, #long_name, dlpack_code, bits, mantissa},
#include <deformkit/types.inc>
#undef DEFORMKIT_TYPE
};

struct Variant {
    std::string op, pass, type, target;
    std::string serves;  ///< another pass, where this runs in place of that one's row

    std::string name() const { return op + "_" + pass + "_" + type + "_" + target; }

    /// Where its tensors are.
    DLDeviceType device() const {
#define DEFORMKIT_TARGET(name, supported, device, interface, cpu_features) \
    if (target == #name) {                                                 \
        return device;                                                     \
    }
#include "deformkit_targets.inc"
#undef DEFORMKIT_TARGET
        return kDLCPU;
    }
    /// Runs on a device of its own driver, with threads that set_num_threads knows nothing of.
    bool on_device() const {
        return device() != kDLCPU;
    }
};

/// All rows, best first within each operator, pass and type.
inline const std::vector<Variant> &all_variants() {
    static const std::vector<Variant> all = {
#define DEFORMKIT_VARIANT(op, pass, type, target, serves, ...) {#op, #pass, #type, #target, #serves},
#include "deformkit_variants.inc"
#undef DEFORMKIT_VARIANT
    };
    return all;
}

inline std::vector<Variant> variants_of(const std::string &op, const std::string &pass, const std::string &type) {
    std::vector<Variant> rows;
    for (const Variant &v : all_variants()) {
        if (v.op == op && v.pass == pass && v.type == type) {
            rows.push_back(v);
        }
    }
    return rows;
}

/// Kernels that a call on this row may run: its own, and those that run in its place.
inline std::vector<std::string> kernels_of(const Variant &row) {
    std::vector<std::string> names;
    for (const Variant &v : all_variants()) {
        if (v.op == row.op && v.serves == row.pass && v.type == row.type && v.target == row.target) {
            names.push_back(v.name());
        }
    }
    return names;
}

}  // namespace deformkit::bench
