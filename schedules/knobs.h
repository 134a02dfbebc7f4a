// Knobs: the numbers that a machine decides. schedules/<operator>_knobs.h lists those of each pass:
//   SCHEDULE(name, default, lowest, highest, "meaning")   a GeneratorParam: decides how the kernel is compiled
//   HOST(name, default, lowest, highest, "meaning")       a number of the variant: decides how the host divides a call
// schedules/tuned/<variant>.params sets either, one name=value a line. cmake/DeformkitKnobs.cmake reads the same lists: a line for
// each knob, numbers as 64 or 64 << 20.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace deformkit {

struct Knob {
    const char *name;
    int64_t standard, lowest, highest;
    const char *meaning;
};

// clang-format off
#define DEFORMKIT_NO_KNOB(name, standard, lowest, highest, meaning)
#define DEFORMKIT_KNOB_FIELD(name, standard, lowest, highest, meaning) Number name = Number{standard};
#define DEFORMKIT_KNOB_ONE(name, standard, lowest, highest, meaning) +1  // NOLINT(bugprone-macro-parentheses): a term of a sum
#define DEFORMKIT_KNOB_ROW(name, standard, lowest, highest, meaning) \
    Knob{#name, int64_t{standard}, int64_t{lowest}, int64_t{highest}, meaning},
#define DEFORMKIT_KNOB_POINTER(name, standard, lowest, highest, meaning) &Self::name,

#define DEFORMKIT_SCHEDULE_ONLY(MACRO) MACRO, DEFORMKIT_NO_KNOB
#define DEFORMKIT_HOST_ONLY(MACRO) DEFORMKIT_NO_KNOB, MACRO
#define DEFORMKIT_FOR_KNOBS(LIST, ...) LIST(__VA_ARGS__)

// A field for each knob; knobs() describes them, fields() points to them, in the list's order.
#define DEFORMKIT_KNOB_STRUCT(Name, Type, LIST, ONLY)                                       \
    struct Name {                                                                           \
        using Self = Name;                                                                  \
        using Number = Type;                                                                \
        DEFORMKIT_FOR_KNOBS(LIST, ONLY(DEFORMKIT_KNOB_FIELD))                               \
        static constexpr size_t kCount = 0 DEFORMKIT_FOR_KNOBS(LIST, ONLY(DEFORMKIT_KNOB_ONE)); \
        static constexpr std::array<Knob, kCount> knobs() {                                 \
            return {{DEFORMKIT_FOR_KNOBS(LIST, ONLY(DEFORMKIT_KNOB_ROW))}};                 \
        }                                                                                   \
        static constexpr std::array<Number Self::*, kCount> fields() {                      \
            return {{DEFORMKIT_FOR_KNOBS(LIST, ONLY(DEFORMKIT_KNOB_POINTER))}};             \
        }                                                                                   \
    };

// <Pass>ScheduleKnobs and <Pass>HostKnobs; `pass` is operator and pass as variants.cmake names them.
#define DEFORMKIT_KNOBS(pass, Pass, LIST)                                                   \
    DEFORMKIT_KNOB_STRUCT(Pass##ScheduleKnobs, int, LIST, DEFORMKIT_SCHEDULE_ONLY)          \
    DEFORMKIT_KNOB_STRUCT(Pass##HostKnobs, int64_t, LIST, DEFORMKIT_HOST_ONLY)              \
    using pass##_host_knobs = Pass##HostKnobs;
// clang-format on

}  // namespace deformkit
