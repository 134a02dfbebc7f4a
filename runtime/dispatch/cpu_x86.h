// Features of x86 CPUs that not every compiler's __builtin_cpu_supports has a name for. variants.cmake asks here.
#pragma once

#include <cpuid.h>

#include <atomic>

#include "runtime/system/locks.h"

namespace deformkit {

/// Conversions of float16. The registers that they work on are enabled by the system together with AVX. Asked once: in a
/// virtual machine the instruction traps, 15 microseconds a call, where all else of a small call takes one.
inline bool cpu_supports_f16c() {
    static std::atomic<int> supported{-1};
    return known_or(supported, [] {
        unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
        return __builtin_cpu_supports("avx") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
    });
}

}  // namespace deformkit
