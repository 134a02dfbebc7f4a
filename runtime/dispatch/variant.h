// The rows of variants.cmake, with their kernels and host knobs.
#pragma once

#include <HalideRuntime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/tensor/types.h"
#include "schedules/knobs.h"

namespace deformkit {

constexpr int kMostTargets = 16;

struct Target {
    const char *name;
    bool (*supported)();                           ///< by this machine's CPU; whether a GPU answers is asked separately
    DLDeviceType device_type;                      ///< of the tensors that its kernels take
    const halide_device_interface_t *(*device)();  ///< nullptr: the CPU
    const char *cpu_features;                      ///< what `supported` asks for, separated by spaces
    constexpr bool is_gpu() const { return device_type != kDLCPU; }
};

/// The values of the host knobs of a variant, or of the library: a struct of schedules/<operator>_knobs.h, or of
/// schedules/library_knobs.h, whose type only its readers know.
struct HostKnobs {
    const char *owner;  ///< the variant, or "library"
    void *values;
    const Knob *knobs;  ///< of this pass alone: tells the struct
    size_t count;
    int64_t &(*at)(void *values, size_t i);
};

/// One row of variants.cmake.
struct Variant {
    const char *name;       ///< msda_forward_f32_avx512
    const char *operation;  ///< msda_forward
    const char *serves;     ///< the same, or the operation in whose place this kernel runs where that pays
    const StorageType *type;
    const Target *target;
    int (*run)(void **args);
    HostKnobs host_knobs;
};

/// Rows of a table that the compiler has laid out: there is nothing to initialise when the first call comes.
template <typename Row>
class Table {
public:
    template <size_t N>
    constexpr explicit Table(const Row (&rows)[N]) : begin_(rows), end_(rows + N) {}

    constexpr const Row *begin() const { return begin_; }
    constexpr const Row *end() const { return end_; }

private:
    const Row *begin_, *end_;
};

/// The rows, and the targets that they are for, best first.
Table<Variant> all_variants();
Table<Target> all_targets();

template <typename Struct>
inline constexpr std::array<Knob, Struct::kCount> kKnobsOf = Struct::knobs();

/// The host knobs of a variant, as the struct of its pass.
template <typename Struct>
const Struct &host_knobs(const Variant &variant) {
    if (variant.host_knobs.knobs != kKnobsOf<Struct>.data()) {
        throw std::logic_error(std::string(variant.name) + ": not the struct of its host knobs");
    }
    return *static_cast<const Struct *>(variant.host_knobs.values);
}

/// Those of every variant, and library_knobs().
std::vector<HostKnobs> all_host_knobs();

/// Sets one while no call is running: for tests and tuning. Throws a Failure for what is no knob and no value of it.
void set_host_knob(const HostKnobs &knobs, const char *name, int64_t value);

}  // namespace deformkit
