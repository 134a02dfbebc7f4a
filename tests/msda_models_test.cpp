// Every variant on shapes of real models: all queries for the variant that this machine would choose, some for the others.
#include <algorithm>

#include "tests/msda_case.h"
#include "tests/variants.h"

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

void check(const MsdaWorkload &workload, const Variant &variant) {
    MsdaCase c = make_case(workload, variant.type());
    // All queries once for each model, and for each type once.
    if (!is_best(variant) || (variant.type() != Type::kF32 && workload.name != "detr_encoder")) {
        c = take_queries(c, 61);
    }
    MsdaLayout layout;
    layout.index_bits = 32;
    const std::vector<double> output = run(c, layout);
    EXPECT_TRUE(variant.is_served_by(deformkit_last_variant())) << deformkit_last_variant();
    EXPECT_TRUE(matches_reference(c, output));
    EXPECT_TRUE(is_substantial(output));
}

const bool registered = [] {
    for (const MsdaWorkload &workload : msda_model_workloads()) {
        for_each_msda_forward_variant("Models", workload.name, [&](const Variant &v) { check(workload, v); });
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
