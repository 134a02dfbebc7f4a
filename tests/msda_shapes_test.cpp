// Every variant on small and odd shapes, each between guard pages.
#include "tests/msda_case.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

void check(const MsdaWorkload &workload, const Variant &variant) {
    const MsdaCase c = make_case(workload, variant.type());
    MsdaLayout after = MsdaLayout::guarded(Guard::kAfter), before = MsdaLayout::guarded(Guard::kBefore);
    before.index_bits = 32;
    before.output_by_head = true;
    for (const MsdaLayout &layout : {after, before}) {
        SCOPED_TRACE(layout.output_by_head ? "guard before, int32, [B, Q, M, D]" : "guard after, int64, [B, Q, M * D]");
        const std::vector<double> output = run(c, layout);
        EXPECT_TRUE(matches_reference(c, output));
        if (c.is_trivial()) {
            EXPECT_TRUE(same_bits(output, std::vector<double>(output.size(), 0.0)));
        } else {
            EXPECT_TRUE(is_substantial(output));
            EXPECT_TRUE(variant.is_served_by(deformkit_last_variant())) << deformkit_last_variant();
        }
    }
}

const bool registered = [] {
    for (const MsdaWorkload &workload : msda_awkward_workloads()) {
        for_each_msda_forward_variant("Shapes", workload.name, [&](const Variant &v) { check(workload, v); });
        for_each_msda_forward_variant("Shapes", "crowded_" + workload.name,
                                      [&](const Variant &v) { check(crowded(workload), v); });
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
