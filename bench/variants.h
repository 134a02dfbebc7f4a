// The rows of variants.cmake, as the benchmarks see them.
#pragma once

#include <string>
#include <vector>

namespace deformkit::bench {

/// By their names in variants.cmake; the first is what the others are compared with.
constexpr const char *kStorageTypes[] = {"f32", "f16", "bf16", "f64"};

struct Variant {
    std::string op, pass, type, target;

    std::string name() const { return op + "_" + pass + "_" + type + "_" + target; }

    /// Runs on a device of its own driver, with threads that set_num_threads knows nothing of.
    bool on_device() const { return target == "opencl" || target == "cuda"; }
};

/// Best first within each type.
inline std::vector<Variant> variants_of(const std::string &op, const std::string &pass, const std::string &type) {
    static const std::vector<Variant> all = {
#define DEFORMKIT_VARIANT(op, pass, type, target, ...) {#op, #pass, #type, #target},
#include "deformkit_variants.inc"
#undef DEFORMKIT_VARIANT
    };
    std::vector<Variant> rows;
    for (const Variant &v : all) {
        if (v.op == op && v.pass == pass && v.type == type) {
            rows.push_back(v);
        }
    }
    return rows;
}

}  // namespace deformkit::bench
