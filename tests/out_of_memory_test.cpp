// A call that gets no memory is refused, writes nothing, and the next call works.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "tests/child.h"
#include "tests/msda_case.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DEFORMKIT_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define DEFORMKIT_ADDRESS_SANITIZER
#endif

namespace deformkit::testing {
namespace {

/// This process may grow by so much and no more.
void limit_growth(rlim_t bytes) {
    long pages = 0;
    if (FILE *statm = fopen("/proc/self/statm", "r")) {
        if (fscanf(statm, "%ld", &pages) != 1) {
            pages = 0;
        }
        fclose(statm);
    }
    const rlim_t limit = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes;
    const struct rlimit both = {limit, RLIM_INFINITY};
    setrlimit(RLIMIT_AS, &both);
}

TEST(OutOfMemory, PackingWithoutMemoryIsRefused) {
#ifdef DEFORMKIT_ADDRESS_SANITIZER
    GTEST_SKIP() << "AddressSanitizer reserves more address space than any limit";
#endif
    // 64 MiB whose channels are not neighbours: kernels want them packed.
    const MsdaCase c({"", 1, 10, 8, 32, {{256, 256}}, 4, Locations::kWide}, Type::kF32, Pass::kForward);
    Layouts layouts;
    layouts.of["value"].order = {0, 3, 2, 1};
    layouts.of["value"].step = {1, 1, 1, 2};
    const ProblemTensors tensors(c, layouts);
    const ChildResult child = run_in_fork([&] {
        deformkit_set_num_threads(1);
        const MsdaCase small_case(awkward_workload("samples_4x4"), Type::kF32, Pass::kForward);
        const ProblemTensors small(small_case);
        if (small.call() != DEFORMKIT_OK) {
            return 1;
        }
        limit_growth(16 << 20);
        const deformkit_status refused = tensors.call();
        fprintf(stderr, "status %d: %s\n", refused, deformkit_last_error());
        if (refused != DEFORMKIT_OUT_OF_MEMORY) {
            return 2;
        }
        if (!tensors.outputs_untouched()) {
            return 3;
        }
        const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
        setrlimit(RLIMIT_AS, &none);
        if (tensors.call() != DEFORMKIT_OK) {
            return 4;
        }
        return matches(c, tensors.outputs()) ? 0 : 5;
    });
    EXPECT_EQ(child.status, 0) << child.output;
    EXPECT_NE(child.output.find("memory"), std::string::npos) << child.output;
}

}  // namespace
}  // namespace deformkit::testing
