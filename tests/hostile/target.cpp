// libFuzzer's side of call.h.
#include <algorithm>

#include "tests/hostile/call.h"

using deformkit::testing::call_from;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    call_from(data, size);
    return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    std::mt19937 random(seed);
    if (random() % 4 == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    std::vector<uint8_t> bytes(data, data + size);
    for (uint32_t i = 0; i <= random() % 3; i++) {
        deformkit::testing::mutate(bytes, random);
    }
    const size_t length = std::min(bytes.size(), max_size);
    std::copy_n(bytes.begin(), length, data);
    return length;
}
