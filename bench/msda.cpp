// Multi-scale deformable attention, forward and backward.
#include <string>

#include "bench/hand.h"
#include "bench/operators.h"

namespace deformkit::bench {
namespace {

using testing::MsdaWorkload;

Workload forward_of(const MsdaWorkload &w) {
    Workload workload = attention_forward(w, testing::make_msda_inputs);
    if (hand_msda_supports(w)) {
        workload.hand = [w](void *const *data, int num_threads) {
            hand_msda_forward(w, static_cast<const float *>(data[0]), static_cast<const int64_t *>(data[1]),
                              static_cast<const int64_t *>(data[2]), static_cast<const float *>(data[3]),
                              static_cast<const float *>(data[4]), static_cast<float *>(data[5]), num_threads);
        };
    }
    return workload;
}

Workload with_gradients_of(const MsdaWorkload &w) {
    return backward_of(forward_of(w), {0, 3, 4});
}

Pass described(const char *name, Workload (*workload_of)(const MsdaWorkload &)) {
    return make_pass("msda", name, std::string("MSDA ") + name, workload_of, kAttentionCallOverhead,
                     testing::msda_model_workloads());
}

}  // namespace

Pass msda_forward() {
    Pass pass = described("forward", forward_of);
    pass.variant_of = "forward";
    pass.function = "deformkit_msda_forward";
    pass.call = calling(deformkit_msda_forward);
    return pass;
}

Pass msda_backward() {
    Pass pass = described("backward", with_gradients_of);
    pass.variant_of = "backward_value";
    pass.function = "deformkit_msda_backward";
    pass.call = calling(deformkit_msda_backward);
    return pass;
}

}  // namespace deformkit::bench
