// Every variant on shapes of real models and at published limits: all queries for the variant that this machine would choose,
// some for the others.
#include "tests/checks.h"
#include "tests/da_case.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

void check(const Problem &problem, const Variant &variant, const Substance &least) {
    Layouts layouts;
    layouts.index_bits = 32;
    const Outputs outputs = run(problem, layouts);
    EXPECT_TRUE(ran(variant));
    EXPECT_TRUE(matches(problem, outputs));
    EXPECT_TRUE(is_substantial(outputs, least));
}

void check_msda(Pass pass, const MsdaWorkload &workload, const Variant &variant) {
    MsdaCase c(workload, variant.type(), pass);
    // All queries once for each model, and of the forward for each type once.
    const bool forward = pass == Pass::kForward, f32 = variant.type() == Type::kF32;
    if (!is_best(variant) || !(forward ? f32 || workload.name == "detr_encoder" : f32 && c.in.B * c.in.Q <= 25000)) {
        c = take_queries(c, 61);
    }
    check(c, variant, forward ? Substance{0.5, 0} : Substance{0.001, 0.4});
}

/// Many batches and anchors: 128 items, 2048 anchors, 6 cameras, 4 scales, 256 channels; and many points.
const std::vector<DaWorkload> &da_workloads() {
    static const std::vector<DaWorkload> workloads = {
        da_model_workloads()[0],
        da_model_workloads()[2],
        {"many_anchors", 128, 2048, 1, 6, {{8, 10}, {4, 5}, {2, 3}, {1, 2}}, 8, 32, 1.0 / 6},
        {"many_points", 2, 3, 2048, 6, {{32, 88}, {16, 44}, {8, 22}, {4, 11}}, 16, 16, 1.0 / 6},
    };
    return workloads;
}

template <typename Case, typename Workload>
void add_best(Pass pass, const std::string &suite, const Workload &workload) {
    for_each_variant<Case>(
        pass, suite, workload.name,
        [=, &workload](const Variant &v) {
            check(Case(workload, v.type(), pass), v, {0.001, 0.1});
        },
        Rows::kBestF32);
}

const bool registered = [] {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const MsdaWorkload &workload : msda_model_workloads()) {
            for_each_variant<MsdaCase>(pass, "MsdaModels", workload.name,
                                       [=, &workload](const Variant &v) { check_msda(pass, workload, v); });
        }
        for (const DaWorkload &workload : da_workloads()) {
            add_best<DaCase>(pass, "DaModels", workload);
        }
        for (const MsdaWorkload &workload : gka_model_workloads()) {
            add_best<GkaCase>(pass, "GkaModels", workload);
        }
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
