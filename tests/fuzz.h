// Random calls: what tests of all passes draw.
//
// DEFORMKIT_FUZZ_SEED starts at a seed (else at a random one), DEFORMKIT_FUZZ_ITERATIONS sets how many calls follow. Every call
// has a seed of its own, one more than the last: a failure prints the one that repeats it.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/workloads.h"

namespace deformkit::testing {

class Dice {
public:
    explicit Dice(uint32_t seed) : engine_(seed) {}

    int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
    bool one_in(int64_t n) { return between(1, n) == 1; }
    template <typename T>
    T any_of(const std::vector<T> &choices) {
        return choices[between(0, static_cast<int64_t>(choices.size()) - 1)];
    }

private:
    std::mt19937 engine_;
};

uint32_t first_fuzz_seed();
int64_t fuzz_iterations(int64_t otherwise);

MsdaWorkload random_workload(Dice &dice);
/// Anything that may come in spatial_shapes and level_start_index of a value of so many keys.
void disturb_indices(Dice &dice, int64_t keys, std::vector<int64_t> &indices);

}  // namespace deformkit::testing
