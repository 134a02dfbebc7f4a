// Geometric kernel attention, forward and backward.
#include <string>

#include "bench/operators.h"

namespace deformkit::bench {
namespace {

using testing::MsdaWorkload;

Workload forward_of(const MsdaWorkload &w) {
    return attention_forward(w, testing::make_gka_inputs);
}

Workload with_gradients_of(const MsdaWorkload &w) {
    return backward_of(forward_of(w), {0, 4});
}

Pass described(const char *name, Workload (*workload_of)(const MsdaWorkload &)) {
    return make_pass("gka", name, std::string("Geometric kernel attention ") + name, workload_of, kAttentionCallOverhead,
                     testing::gka_model_workloads());
}

}  // namespace

Pass gka_forward() {
    Pass pass = described("forward", forward_of);
    pass.variant_of = "forward";
    pass.function = "deformkit_geometric_kernel_attention_forward";
    pass.call = calling(deformkit_geometric_kernel_attention_forward);
    return pass;
}

Pass gka_backward() {
    Pass pass = described("backward", with_gradients_of);
    pass.variant_of = "backward_value";
    pass.function = "deformkit_geometric_kernel_attention_backward";
    pass.call = calling(deformkit_geometric_kernel_attention_backward);
    return pass;
}

}  // namespace deformkit::bench
