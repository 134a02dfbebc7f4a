// What run_bench.py needs from C++, so that nothing is typed twice: the tables, the inputs, and the hand-written kernels.
#include <sstream>
#include <string>

#include "bench/operators.h"
#include "bench/problem.h"
#include "bench/variants.h"

#define BENCH_API extern "C" __attribute__((visibility("default")))

namespace {

using namespace deformkit::bench;

/// JSON of names and numbers, no more: none of these names has a character that would need escaping.
std::string quoted(const std::string &text) {
    return '"' + text + '"';
}

template <typename Range, typename Text>
std::string list_of(const Range &range, const Text &text) {
    std::string list = "[";
    for (const auto &item : range) {
        list += (list.size() > 1 ? ", " : "") + text(item);
    }
    return list + "]";
}

std::string json_of(const Variant &v) {
    return "{\"name\": " + quoted(v.name()) + ", \"type\": " + quoted(v.type) + ", \"target\": " + quoted(v.target) +
           ", \"on_device\": " + (v.on_device() ? "true" : "false") + ", \"kernels\": " + list_of(kernels_of(v), quoted) + "}";
}

std::string json_of(const Argument &a) {
    static const char *const kinds[] = {"input", "index", "output"};
    return "{\"name\": " + quoted(a.name) + ", \"kind\": " + quoted(kinds[a.kind]) +
           ", \"shape\": " + list_of(a.shape, [](int64_t n) { return std::to_string(n); }) + "}";
}

std::string json_of(const Workload &w) {
    return "{\"name\": " + quoted(w.name) + ", \"samples\": " + std::to_string(w.samples) +
           ", \"hand_written\": " + (w.hand ? "true" : "false") +
           ", \"arguments\": " + list_of(w.arguments, [](const Argument &a) { return json_of(a); }) + "}";
}

std::string json_of(const StorageType &type) {
    return "{\"name\": " + quoted(type.name) + ", \"long_name\": " + quoted(type.long_name) +
           ", \"dlpack_code\": " + std::to_string(type.dlpack_code) + ", \"bits\": " + std::to_string(type.bits) +
           ", \"mantissa_bits\": " + std::to_string(type.mantissa_bits) + "}";
}

std::string json_of(const Pass &pass) {
    std::vector<Variant> variants;
    for (const StorageType &type : kStorageTypes) {
        for (const Variant &v : variants_of(pass.op, pass.variant_of, type.name)) {
            variants.push_back(v);
        }
    }
    return "{\"name\": " + quoted(pass.op + "_" + pass.name) + ", \"title\": " + quoted(pass.title) +
           ", \"function\": " + quoted(pass.function) +
           ", \"variants\": " + list_of(variants, [](const Variant &v) { return json_of(v); }) +
           ", \"workloads\": " + list_of(pass.workloads, [](const Workload &w) { return json_of(w); }) + "}";
}

const Workload &workload_at(int pass, int workload) {
    return passes().at(static_cast<size_t>(pass)).workloads.at(static_cast<size_t>(workload));
}

}  // namespace

/// JSON: all storage types, and all passes, with their variants (best first for each type) and workloads.
BENCH_API const char *deformkit_bench_tables() {
    const auto text = [](const auto &item) { return json_of(item); };
    static const std::string json =
        "{\"types\": " + list_of(kStorageTypes, text) + ", \"passes\": " + list_of(passes(), text) + "}";
    return json.c_str();
}

/// Writes the inputs of a workload, dense, in a storage type by its name; one pointer for each argument.
BENCH_API void deformkit_bench_fill(int pass, int workload, const char *type, void *const *data) {
    fill(workload_at(pass, workload), deformkit::testing::type_named(type), data);
}

/// The hand-written kernel; only where the table says so.
BENCH_API void deformkit_bench_hand(int pass, int workload, void *const *data, int num_threads) {
    workload_at(pass, workload).hand(data, num_threads);
}
