#include "tests/fuzz.h"

#include <cstdlib>
#include <limits>

namespace deformkit::testing {

namespace {

int64_t from_environment(const char *name, int64_t otherwise) {
    const char *value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoll(value, nullptr, 10);
}

}  // namespace

uint32_t first_fuzz_seed() {
    return static_cast<uint32_t>(from_environment("DEFORMKIT_FUZZ_SEED", std::random_device()()));
}

int64_t fuzz_iterations(int64_t otherwise) {
    return from_environment("DEFORMKIT_FUZZ_ITERATIONS", otherwise);
}

MsdaWorkload random_workload(Dice &dice) {
    MsdaWorkload workload;
    workload.batch = dice.one_in(20) ? 0 : dice.between(1, 4);
    workload.queries = dice.one_in(20) ? 0 : dice.any_of<int64_t>({1, 2, dice.between(1, 40), dice.between(1, 200)});
    workload.heads = dice.any_of<int64_t>({1, 8, dice.between(1, 9)});
    workload.channels = dice.any_of<int64_t>({16, 32, 64, dice.between(1, 20), dice.between(1, 140)});
    workload.points = dice.one_in(20) ? 0 : dice.any_of<int64_t>({4, 4, 2, 8, dice.between(1, 11)});
    const int64_t levels = dice.one_in(20) ? 0 : dice.any_of<int64_t>({1, 3, 4, dice.between(1, 7)});
    for (int64_t l = 0; l < levels; l++) {
        workload.levels.push_back({dice.one_in(15) ? 0 : dice.between(1, 18), dice.one_in(15) ? 0 : dice.between(1, 18)});
    }
    workload.locations = dice.any_of<Locations>({Locations::kNear, Locations::kWide, Locations::kBoxes});
    return workload;
}

void disturb_indices(Dice &dice, int64_t keys, std::vector<int64_t> &indices) {
    constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max(), kMin32 = std::numeric_limits<int32_t>::min();
    for (int64_t &index : indices) {
        if (dice.one_in(4)) {
            index = dice.any_of<int64_t>({index + 1, index - 1, -index, dice.between(-50, 50), dice.between(0, keys + 2), keys,
                                          dice.between(kMin32, kMax32), kMax32, kMin32, 65536, 46341});
        }
    }
}

}  // namespace deformkit::testing
