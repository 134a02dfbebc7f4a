// A workload's tensors in memory, as DLPack sees them.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "bench/operators.h"
#include "tests/support/types.h"

namespace deformkit::bench {

/// Bytes of an argument's elements.
int64_t bytes_of(const Argument &argument, testing::Type type);

/// Writes the inputs of a workload, dense; `data`: one pointer for each argument.
void fill(const Workload &workload, testing::Type type, void *const *data);

/// Storage that starts `offset` bytes behind a 64-byte boundary (a cache line, and an AVX-512 register).
class AlignedMemory {
public:
    explicit AlignedMemory(int64_t bytes, int64_t offset = 0);

    unsigned char *data() const { return memory_.get() + offset_; }

private:
    struct Free {
        void operator()(unsigned char *p) const { std::free(p); }
    };
    std::unique_ptr<unsigned char, Free> memory_;
    int64_t offset_;
};

struct Problem {
    /// `offset`: bytes by which the first argument misses a 64-byte boundary; all else is on one.
    Problem(const Workload &workload, testing::Type type, int64_t offset);

    int64_t bytes() const;  ///< of all arguments, each once

    const Workload &workload;
    const testing::Type type;
    std::vector<std::vector<int64_t>> shapes;
    std::vector<AlignedMemory> memory;
    std::vector<void *> data;
    std::vector<DLTensor> tensors;
};

}  // namespace deformkit::bench
