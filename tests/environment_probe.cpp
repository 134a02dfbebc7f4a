// One small call in a process of its own, for tests of the environment: prints status, variant and message. With "knobs_file",
// only where the user's knobs are looked for.
#include <deformkit/deformkit.h>

#include <cstdio>

#include "tests/msda_case.h"

#ifdef __SANITIZE_ADDRESS__
// PoCL keeps what it allocated for a build that failed.
extern "C" const char *__lsan_default_suppressions() {
    return "leak:libpocl";
}
#endif

int main(int argc, char **argv) {
    using namespace deformkit::testing;
    if (argc > 1 && std::string(argv[1]) == "knobs_file") {
        std::printf("%s\n", deformkit_knobs_file());
        return 0;
    }
    const MsdaCase c(awkward_workload("samples_4x4"), Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c);
    const deformkit_status status = tensors.call();
    std::printf("status=%d\nvariant=%s\nerror=%s\n", status, deformkit_last_variant(), deformkit_last_error());
    if (status != DEFORMKIT_OK) {
        return tensors.outputs_untouched() ? 0 : 1;
    }
    return matches(c, tensors.outputs()) ? 0 : 1;
}
