// MSDA backward, every variant on shapes of real models: all queries of one image in float32 for the variant that this machine
// would choose, some for the others.
#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

bool is_best(const Variant &variant) {
    for (const Variant &other : all_variants()) {
        if (other.op == variant.op && other.pass == variant.pass && other.type_name == variant.type_name &&
            availability_of(other.target) == Availability::kYes) {
            return other.target == variant.target;
        }
    }
    return false;
}

void check(const MsdaWorkload &workload, const Variant &variant, Type type) {
    MsdaBackwardCase c = make_backward_case(workload, type);
    if (!is_best(variant) || variant.type() != Type::kF32 || c.B * c.Q > 25000) {
        c = take_queries(c, 61);
    }
    MsdaBackwardLayout layout;
    layout.index_bits = 32;
    const MsdaGradients gradients = run(c, layout);
    EXPECT_EQ(deformkit_last_variant(), variant.name());
    EXPECT_TRUE(matches_reference(c, gradients));
    EXPECT_TRUE(is_substantial(gradients, 0.001));
}

const bool registered = [] {
    for (const MsdaWorkload &workload : msda_model_workloads()) {
        for_each_msda_backward_variant("Models", workload.name, [&](const Variant &v, Type type) { check(workload, v, type); });
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
