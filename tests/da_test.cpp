// Deformable aggregation, forward and backward, by variant.
#include <cmath>
#include <limits>
#include <random>

#include "tests/checks.h"
#include "tests/da_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

const DaWorkload kMixed = {"mixed", 2, 9, 7, 3, {{5, 7}, {3, 4}, {1, 6}}, 2, 16, 0.5};
const DaWorkload kOddChannels = {"odd_channels", 1, 5, 7, 2, {{5, 7}, {3, 4}}, 3, 5, 0.6};

void check_shapes(Pass pass, const DaWorkload &workload, const Variant &variant) {
    const DaCase c(workload, variant.type(), pass);
    if (workload.visible == 0) {
        EXPECT_TRUE(all_zero(run(c)));
        return;
    }
    const Substance usual = usual_substance(c);
    check_against_reference(c, {usual.first, usual.others * workload.visible});
    if (!c.is_trivial()) {
        EXPECT_TRUE(ran(variant));
    }
}

/// On, beside and far beyond the edges of (0, 1), which are open.
void check_boundaries(Pass pass, const Variant &variant) {
    const Type type = variant.type();
    std::vector<double> edges = {
        0, -0.0, 1, kNan, kInf, -kInf, 1e30, -1e30, 0.3, 0.9, neighbour(type, 0, 1), neighbour(type, 0, -1)};
    for (double u : {neighbour(type, 1, -1), neighbour(type, 1, 1), neighbour(type, 0.25, 1)}) {
        edges.push_back(u);
    }
    const auto count = static_cast<int64_t>(edges.size());
    // Sizes that are powers of two leave nothing to round where a location says which cell it is in.
    for (const Level &map : {Level{4, 8}, {1, 1}, {2, 1}}) {
        for (int64_t channels : {16, 5}) {
            DaCase c({"", 1, count, count, 1, {map}, 1, channels, 1}, type, pass);
            for (int64_t i = 0; i < count * count; i++) {
                c.in.locations[2 * i] = edges[i / count];
                c.in.locations[2 * i + 1] = edges[i % count];
            }
            check_against_reference(c, {0.05, 0.05});
        }
    }
}

/// Whatever a skipped sample holds, location or weight, it counts for nothing, and its gradients are zero.
void check_skipped(Pass pass, const Variant &variant) {
    for (const DaWorkload &workload : {kMixed, kOddChannels}) {
        DaCase clean(workload, variant.type(), pass);
        const double outside[] = {0, 1, -0.25, 1.75, kNan, kInf, -kInf, 1e30};
        const auto per_sample = static_cast<int64_t>(clean.in.weights.size() / (clean.in.locations.size() / 2));
        DaCase c = clean;
        for (size_t i = 0; i < clean.in.locations.size() / 2; i += 3) {
            clean.in.locations[2 * i] = 7;
            c.in.locations[2 * i + i % 2] = outside[i / 3 % 8];
            for (int64_t j = 0; j < per_sample; j++) {
                c.in.weights[i * per_sample + j] = j % 2 == 0 ? kNan : kInf;
            }
        }
        EXPECT_TRUE(same_bits(run(c), run(clean)));
        c.in.feature_maps.assign(c.in.feature_maps.size(), kNan);
        for (size_t i = 0; i < c.in.locations.size() / 2; i++) {
            c.in.locations[2 * i + i % 2] = outside[i % 8];
        }
        for (const std::vector<double> &output : run(c)) {
            for (double x : output) {
                ASSERT_EQ(x, 0.0);
            }
        }
    }
}

/// NaN and infinities in single cells, weights and gradients reach what touches them, and nothing else.
void check_nonfinite(Pass pass, const Variant &variant) {
    struct Maps {
        const DaWorkload &workload;
        int64_t outside;  // cells of the first map that lie before feature_maps
    };
    for (const Maps &maps :
         {Maps{kMixed, 0}, {kOddChannels, 0}, {kMixed, 3}, {kOddChannels, 9}, {da_workload("empty_map"), 0}}) {
        DaCase clean(maps.workload, variant.type(), pass);
        clean.in.starts[0] -= maps.outside;
        int64_t reached = 0;
        const auto check = [&](std::vector<double> DaReferenceInputs::*numbers, size_t step) {
            for (size_t i = 0; i < (clean.in.*numbers).size(); i += step) {
                DaCase c = clean;
                (c.in.*numbers)[i] = i / step % 3 == 0 ? kNan : i / step % 3 == 1 ? kInf : -kInf;
                const Outputs outputs = run(c);
                ASSERT_TRUE(matches(c, outputs, c.expected())) << "element " << i;
                for (const std::vector<double> &output : outputs) {
                    reached += std::count_if(output.begin(), output.end(), [](double x) { return !std::isfinite(x); });
                }
            }
        };
        check(&DaReferenceInputs::feature_maps, 23);
        if (maps.outside > 0) {
            // Weights of samples without any cell in feature_maps do not count.
            continue;
        }
        check(&DaReferenceInputs::weights, 31);
        if (pass == Pass::kBackward) {
            check(&DaReferenceInputs::grad_output, 13);
        }
        EXPECT_GT(reached, 0);
    }
}

/// Maps that overlap, lie in any order, are empty or reach outside; and nonsense, which must do no harm.
void check_indices(Pass pass, const Variant &variant) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max(), kMin = std::numeric_limits<int32_t>::min();
    struct Indices {
        std::vector<int64_t> shapes, starts;
        bool sensible;
    };
    const std::vector<int64_t> shapes = {4, 6, 3, 3, 2, 5, 1, 7};  // 24 + 9 + 10 + 7 cells, two cameras with two scales
    const Indices table[] = {
        {shapes, {0, 24, 33, 43}, true},
        {shapes, {26, 17, 7, 0}, true},
        {shapes, {0, 10, 15, 20}, true},
        {shapes, {7, 7, 7, 7}, true},
        {shapes, {0, 0, 24, 24}, true},
        {shapes, {-3, 24, 41, 48}, true},
        {shapes, {49, 49, 49, 49}, true},
        {shapes, {50, 500, -24, -1000}, true},
        {{40, 60, 3, 3, 0, 5, 1, 7}, {0, 24, 33, 43}, true},
        {{0, 6, 3, 0, 0, 0, 0, 7}, {0, 24, 33, 43}, true},
        {{-4, 6, 3, -3, -2, -5, 1, 7}, {0, 24, 33, 43}, true},
        {{4, 6, 3, 3, 2, 5, 1, 7}, {kMax, kMin, kMax - 5, kMin + 3}, true},
        {{kMax, kMax, kMax, 1, 1, kMax, 65536, 65536}, {0, 24, 33, 43}, false},
        {{kMin, kMin, kMin, 1, 1, kMin, 46341, 46341}, {0, kMin, kMax, 43}, false},
        {{100000, 65536, 131072, 32768, 16777216, 256, kMax, 2}, {0, 0, 5, -kMax}, false},
    };
    for (const Indices &indices : table) {
        for (int64_t channels : {16, 5}) {
            DaCase c({"", 2, 30, 5, 2, {{4, 6}, {3, 3}}, 2, channels, 0.8}, variant.type(), pass);
            c.in.K = 50;
            c.in.feature_maps.resize(c.in.B * c.in.K * c.in.C);
            for (size_t i = 0; i < c.in.feature_maps.size(); i++) {
                c.in.feature_maps[i] = nearest(c.type(), std::cos(static_cast<double>(i)));
            }
            c.in.shapes = indices.shapes;
            c.in.starts = indices.starts;
            if (indices.sensible) {
                c.avoid_ties();
            }
            for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
                const Outputs outputs = run(c, guarded(guard));
                if (indices.sensible) {
                    EXPECT_TRUE(matches(c, outputs, c.expected())) << "starts[0] " << indices.starts[0];
                }
            }
        }
    }
}

void check_nan_threads(Pass pass, const Variant &variant) {
    for (const DaWorkload &workload : da_awkward_workloads()) {
        SCOPED_TRACE(workload.name);
        const DaCase c(workload, variant.type(), pass);
        if (!c.is_trivial() && workload.visible > 0) {
            check_nans(c);
        }
    }
}

/// The sum of output * grad_output, differenced along single inputs, is what backward says.
void check_differences(const Variant &) {
    for (const DaWorkload &workload : {kMixed, kOddChannels}) {
        const DaCase backward(workload, Type::kF64, Pass::kBackward);
        const Outputs gradients = run(backward);
        std::mt19937 random(1);
        std::vector<double> DaReferenceInputs::*inputs[] = {&DaReferenceInputs::feature_maps, &DaReferenceInputs::locations,
                                                            &DaReferenceInputs::weights};
        for (int which = 0; which < 3; which++) {
            for (int trial = 0; trial < 40; trial++) {
                DaCase forward(workload, Type::kF64, Pass::kForward);
                std::vector<double> &numbers = forward.in.*inputs[which];
                const size_t i = random() % numbers.size();
                const double at = numbers[i], h = 1e-6;
                double sums[2];
                for (int side = 0; side < 2; side++) {
                    numbers[i] = at + (side == 0 ? -h : h);
                    const std::vector<double> output = run(forward)[0];
                    sums[side] = 0;
                    for (size_t j = 0; j < output.size(); j++) {
                        sums[side] += output[j] * backward.in.grad_output[j];
                    }
                }
                EXPECT_NEAR((sums[1] - sums[0]) / (2 * h), gradients[which][i], 1e-7) << "input " << which << ", element " << i;
            }
        }
    }
}

const bool registered = [] {
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const DaWorkload &workload : da_awkward_workloads()) {
            for_each_variant<DaCase>(pass, "DaShapes", workload.name,
                                     [=, &workload](const Variant &v) { check_shapes(pass, workload, v); });
        }
        const auto add = [&](const std::string &name, void (*check)(Pass, const Variant &)) {
            for_each_variant<DaCase>(pass, "Da", name, [=](const Variant &v) { check(pass, v); });
        };
        add("boundaries", check_boundaries);
        add("skipped_samples", check_skipped);
        add("nonfinite", check_nonfinite);
        add("indices", check_indices);
        add("nans", check_nan_threads);
        for (const auto *workload : {&kMixed, &kOddChannels}) {
            for_each_variant<DaCase>(
                pass, "DaStrides", workload->name, [=](const Variant &v) { check_strides(DaCase(*workload, v.type(), pass)); },
                Rows::kHost);
        }
        for (const char *name : {"groups_8_of_32", "published_1_32_8", "points_shared_out", "points_shared_out_of_30",
                                 "many_batches", "groups_5_of_7"}) {
            for_each_variant<DaCase>(
                pass, "DaThreads", name,
                [=](const Variant &v) {
                    check_threads(DaCase(da_workload(name), v.type(), pass), {0.05, 0.1});
                },
                Rows::kThreads);
        }
    }
    for_each_variant<DaCase>(Pass::kBackward, "Da", "subsets",
                             [](const Variant &v) { check_subsets(DaCase(kMixed, v.type(), Pass::kBackward), v); });
    static const DaWorkload wide = {"channels_8200", 2, 3, 2, 2, {{3, 4}, {2, 2}}, 1, 8200, 0.8};
    for_each_variant<DaCase>(
        Pass::kForward, "DaShapes", wide.name, [](const Variant &v) { check_shapes(Pass::kForward, wide, v); }, Rows::kDevices);
    for (const char *name : {"groups_8_of_32", "groups_5_of_7", "many_batches"}) {
        for_each_variant<DaCase>(
            Pass::kBackward, "DaInOrder", name,
            [=](const Variant &v) { check_in_order(DaCase(da_workload(name), v.type(), Pass::kBackward)); }, Rows::kDevices);
    }
    for_each_variant<DaCase>(Pass::kBackward, "Da", "differences", check_differences, Rows::kF64);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
