// MSDA backward, every variant on small and odd shapes, each tensor between guard pages.
#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

void check(const MsdaWorkload &workload, const Variant &variant, Type type) {
    const MsdaBackwardCase c = make_backward_case(workload, type);
    MsdaBackwardLayout after = MsdaBackwardLayout::guarded(Guard::kAfter), before = MsdaBackwardLayout::guarded(Guard::kBefore);
    before.index_bits = 32;
    before.grad_by_head = true;
    for (const MsdaBackwardLayout &layout : {after, before}) {
        SCOPED_TRACE(layout.grad_by_head ? "guard before, int32, [B, Q, M, D]" : "guard after, int64, [B, Q, M * D]");
        const MsdaGradients gradients = run(c, layout);
        EXPECT_TRUE(matches_reference(c, gradients));
        if (c.is_trivial()) {
            for (const auto *each : {&gradients.value, &gradients.locations, &gradients.weights}) {
                EXPECT_TRUE(same_bits(*each, std::vector<double>(each->size(), 0.0)));
            }
        } else {
            EXPECT_TRUE(is_substantial(gradients));
            EXPECT_EQ(deformkit_last_variant(), variant.name());
        }
    }
}

const bool registered = [] {
    for (const MsdaWorkload &workload : msda_awkward_workloads()) {
        for_each_msda_backward_variant("Shapes", workload.name, [&](const Variant &v, Type type) { check(workload, v, type); });
        for_each_msda_backward_variant("Shapes", "crowded_" + workload.name,
                                       [&](const Variant &v, Type type) { check(crowded(workload), v, type); });
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
