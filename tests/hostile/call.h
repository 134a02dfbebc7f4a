// A call of the C interface that arbitrary bytes describe: a proper call of any operator and pass, and then everything that can be
// wrong with one. What the library promises of any call is checked; a broken promise ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace deformkit::testing {

/// What became of a call.
enum class Outcome {
    kSkipped,   ///< would take too long, or lies where nothing can be mapped
    kRefused,   ///< a status, and outputs as they were
    kOk,        ///< the same bits with another number of threads
    kCompared,  ///< and what the reference says
};
constexpr int kOutcomes = 4;

/// Makes the call. Every tensor that bytes describe has memory of exactly that reach, with unmapped pages on both sides.
Outcome call_from(const uint8_t *bytes, size_t size);

/// The call in words: its function, and shape, strides and type of each tensor.
std::string describe(const uint8_t *bytes, size_t size);

/// Changes the bytes of a call: other bytes, or a change of the call that means something.
void mutate(std::vector<uint8_t> &bytes, std::mt19937 &random);

}  // namespace deformkit::testing
