// MSDA, forward and backward, by variant: shapes, strides, threads, and differences of the forward.
#include <cmath>
#include <set>

#include "tests/checks.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

void check_shapes(Pass pass, const MsdaWorkload &workload, const Variant &variant) {
    const MsdaCase c(workload, variant.type(), pass);
    check_against_reference(c);
    if (!c.is_trivial()) {
        EXPECT_TRUE(ran(variant));
    }
}

/// Each kernel that may serve the row does, and by name: the row's own, where cells are read once, and those that run in its
/// place, where they are read often. What it computes is checked.
void check_kernels(const Variant &variant) {
    std::set<std::string> kernels, served;
    for (const Variant &row : all_variants()) {
        if (variant.is_served_by(row.name())) {
            kernels.insert(row.name());
        }
    }
    MsdaWorkload few = awkward_workload("samples_4x4");
    few.queries = 1;
    for (const MsdaWorkload &w : {few, crowded(few), crowded(awkward_workload("samples_1x2"))}) {
        const MsdaCase c(w, variant.type(), Pass::kForward);
        check_against_reference(c);
        served.insert(deformkit_last_variant());
    }
    EXPECT_EQ(served, kernels);
}

void check_strides_of(Pass pass, MsdaWorkload workload, Type type) {
    workload.batch = 2;
    workload.locations = Locations::kWide;  // inside, also when an expanded axis leaves a single one
    check_strides(MsdaCase(workload, type, pass));
}

/// Large enough for every thread to get work; one of them adds everything to a few cells.
const std::vector<MsdaWorkload> &large_workloads() {
    static const std::vector<MsdaWorkload> workloads = {
        {"encoder", 1, 1500, 8, 32, {{25, 42}, {13, 21}, {7, 11}}, 4, Locations::kNear},
        {"decoder", 2, 300, 8, 32, {{50, 84}, {25, 42}, {13, 21}, {7, 11}}, 4, Locations::kBoxes},
        {"odd", 3, 211, 3, 19, {{17, 13}, {5, 9}}, 3, Locations::kWide},
        {"few_cells", 1, 3000, 2, 16, {{2, 3}, {1, 1}}, 4, Locations::kWide},
        {"one_query", 1, 1, 8, 32, {{25, 42}, {13, 21}}, 4, Locations::kWide},
    };
    return workloads;
}

void check_parallel_callers(Pass pass, const Variant &variant) {
    std::vector<std::unique_ptr<Problem>> problems;
    for (uint32_t i = 0; i < 8; i++) {
        problems.push_back(take_queries(MsdaCase(large_workloads()[i % 3], variant.type(), pass, i), 100).clone());
    }
    check_callers(problems, variant);
}

/// The sum of grad_output * output, differenced along single inputs, is what backward says.
void check_differences(const MsdaWorkload &workload, const Variant &variant) {
    MsdaCase c(workload, variant.type(), Pass::kBackward);
    c.avoid_ties();
    for (size_t s = 0; s < c.in.locations.size(); s += 14) {
        c.in.locations[s] = 1.75;  // outside
    }
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);  // thousands of small calls
    const Outputs gradients = run(c);
    EXPECT_TRUE(matches(c, gradients));
    EXPECT_TRUE(is_substantial(gradients, usual_substance(c)));
    MsdaCase forward(workload, variant.type(), Pass::kForward);
    const auto loss = [&] {
        forward.in = c.in;
        const std::vector<double> output = run(forward)[0];
        double sum = 0;
        for (size_t i = 0; i < output.size(); i++) {
            sum += c.in.grad_output[i] * output[i];
        }
        return sum;
    };
    for (size_t input = 0; input < 3; input++) {
        const auto [name, numbers] = c.numbers()[input];
        // Linear in one number at a time while no sample crosses a line between cells: only rounding limits the step.
        const double step = numbers == &c.in.locations ? 0x1p-9 : 0.5;
        const std::vector<double> &gradient = gradients[input];
        for (size_t i = 0; i < gradient.size(); i += std::max<size_t>(1, gradient.size() / 150) | 1) {
            double &number = (*numbers)[i];
            const double before = number;
            number = before + step;
            const double above = loss();
            number = before - step;
            const double below = loss();
            number = before;
            EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 1e-10 * (1 + std::fabs(gradient[i])))
                << name << "[" << i << "]";
        }
    }
}

const bool registered = [] {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const MsdaWorkload &workload : msda_awkward_workloads()) {
            for (const auto &[prefix, w] : {std::pair("", workload), {"crowded_", crowded(workload)}}) {
                for_each_variant<MsdaCase>(pass, "MsdaShapes", prefix + workload.name,
                                           [=, w = w](const Variant &v) { check_shapes(pass, w, v); });
            }
        }
        for (const auto &[name, w] : {std::pair("samples_3x4", awkward_workload("samples_3x4")),
                                      {"samples_1x2", awkward_workload("samples_1x2")},
                                      {"channels_40", awkward_workload("channels_40")},
                                      {"crowded_channels_7", crowded(awkward_workload("channels_7"))},
                                      {"crowded_samples_2x7", crowded(awkward_workload("samples_2x7"))}}) {
            for_each_variant<MsdaCase>(
                pass, "MsdaStrides", name, [=, w = w](const Variant &v) { check_strides_of(pass, w, v.type()); }, Rows::kHost);
        }
        for (const MsdaWorkload &w : large_workloads()) {
            const Substance least = pass == Pass::kForward  ? Substance{0.5, 0}
                                    : w.name == "one_query" ? Substance{0.001, 0.4}
                                                            : Substance{0.3, 0.4};
            for_each_variant<MsdaCase>(
                pass, "MsdaThreads", w.name, [=](const Variant &v) { check_threads(MsdaCase(w, v.type(), pass), least); },
                Rows::kThreads);
        }
        for_each_variant<MsdaCase>(
            pass, "MsdaThreads", "parallel_callers", [=](const Variant &v) { check_parallel_callers(pass, v); },
            Rows::kThreads);
    }
    for_each_variant<MsdaCase>(Pass::kForward, "MsdaShapes", "kernels", check_kernels);
    // More than the threads of a block on a GPU take.
    static const MsdaWorkload wide = {"channels_8200", 2, 3, 2, 8200, {{3, 4}, {2, 2}}, 2, Locations::kWide};
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        for_each_variant<MsdaCase>(
            pass, "MsdaShapes", wide.name, [=](const Variant &v) { check_shapes(pass, wide, v); }, Rows::kDevices);
    }
    std::vector<MsdaWorkload> subsets = large_workloads();
    for (const char *name : {"channels_7", "samples_1x2", "one_of_everything", "no_queries", "no_keys", "no_batch", "no_levels",
                             "no_points", "no_heads", "no_channels"}) {
        subsets.push_back(awkward_workload(name));
    }
    for (const MsdaWorkload &w : subsets) {
        for_each_variant<MsdaCase>(Pass::kBackward, "MsdaSubsets", w.name,
                                   [=](const Variant &v) { check_subsets(MsdaCase(w, v.type(), Pass::kBackward), v); });
    }
    for (const MsdaWorkload &w : {crowded(awkward_workload("channels_40")), awkward_workload("channels_7"),
                                  crowded(awkward_workload("samples_2x7")), large_workloads().front()}) {
        for_each_variant<MsdaCase>(
            Pass::kBackward, "MsdaInOrder", w.name,
            [=](const Variant &v) { check_in_order(MsdaCase(w, v.type(), Pass::kBackward)); }, Rows::kDevices);
    }
    for (const char *name : {"channels_3", "channels_16", "channels_32", "samples_3x4", "samples_1x2", "rows_and_columns"}) {
        for (const auto &[prefix, w] : {std::pair("", awkward_workload(name)), {"crowded_", crowded(awkward_workload(name))}}) {
            for_each_variant<MsdaCase>(
                Pass::kBackward, "MsdaDifferences", std::string(prefix) + name,
                [w = w](const Variant &v) { check_differences(w, v); }, Rows::kF64);
        }
    }
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
