// Geometric kernel attention, forward and backward, by variant.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/checks.h"
#include "tests/gka_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

const MsdaWorkload kMixed = {"mixed", 2, 11, 3, 16, {{5, 7}, {3, 4}, {1, 6}}, 4, Locations::kWide};
const MsdaWorkload kOddSizes = {"odd_sizes", 2, 9, 2, 5, {{5, 7}, {3, 4}}, 3, Locations::kWide};
const MsdaWorkload kCrowded = {"crowded", 2, 300, 8, 32, {{5, 7}, {3, 4}}, 4, Locations::kWide};

void check_shapes(Pass pass, const MsdaWorkload &workload, const Variant &variant) {
    const GkaCase c(workload, variant.type(), pass);
    check_against_reference(c, pass == Pass::kForward ? Substance{0.5, 0} : Substance{0.02, 0.4});
    if (!c.is_trivial()) {
        EXPECT_TRUE(ran(variant));
    }
}

/// Truncated toward zero, clamped to the map; what is neither number nor finite is nowhere.
void check_boundaries(Pass pass, const Variant &variant) {
    for (const Level &map : {Level{4, 8}, {1, 1}, {5, 7}}) {
        std::vector<double> edges = {
            0,    -0.0,  -0.5,         -1,           -0.999,        0.5,          0.999999,     1, 1.5, kNan, kInf, -kInf,
            1e30, -1e30, 2147483647.0, 2147483648.0, -2147483648.0, 4294967296.0, -4294967297.0};
        for (int64_t extent : {map.width, map.height}) {
            const auto n = static_cast<double>(extent);
            for (double x :
                 {n - 1, n - 0.5, n, n + 0.5, n - 1.5, static_cast<double>(std::nextafter(static_cast<float>(n), 0.0f))}) {
                edges.push_back(x);
            }
        }
        const auto count = static_cast<int64_t>(edges.size());
        for (int64_t channels : {16, 5}) {
            GkaCase c({"", 1, count * count, 1, channels, {map}, 1, Locations::kWide}, variant.type(), pass);
            for (int64_t i = 0; i < count * count; i++) {
                c.in.locations[2 * i] = edges[i / count];
                c.in.locations[2 * i + 1] = edges[i % count];
            }
            for (const DLDataType dtype : {DLDataType{kDLFloat, 32, 1},
                                           {kDLFloat, 64, 1},
                                           {kDLFloat, 16, 1},
                                           {kDLBfloat, 16, 1},
                                           {kDLInt, 8, 1},
                                           {kDLInt, 16, 1},
                                           {kDLInt, 32, 1},
                                           {kDLInt, 64, 1}}) {
                SCOPED_TRACE(::testing::Message()
                             << "locations of code " << int{dtype.code} << ", " << int{dtype.bits} << " bits");
                c.set_location_dtype(dtype);
                check_against_reference(c, {0.05, 0.05});
            }
        }
    }
}

/// The smallest integers are locations like any other.
void check_smallest_integers(Pass pass, const Variant &variant) {
    for (int bits : {8, 16, 32, 64}) {
        GkaCase c({"", 1, 8, 1, 16, {{4, 8}}, 2, Locations::kWide}, variant.type(), pass);
        c.set_location_dtype({kDLInt, static_cast<uint8_t>(bits), 1});
        GkaCase zero = c;
        std::fill(zero.in.locations.begin(), zero.in.locations.end(), 0.0);
        class Smallest : public GkaCase {
        public:
            Smallest(const GkaCase &c, int bits) : GkaCase(c), bits_(bits) {}
            std::vector<Operand> operands() const override {
                std::vector<Operand> all = GkaCase::operands();
                const int64_t smallest = bits_ == 64 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (bits_ - 1));
                std::fill(all[3].integers.begin(), all[3].integers.end(), smallest);
                return all;
            }

        private:
            int bits_;
        };
        EXPECT_TRUE(same_bits(run(Smallest(c, bits)), run(zero))) << bits;
    }
}

/// NaN and infinities in single cells, weights, gradients and locations reach what they should, and nothing else.
void check_nonfinite(Pass pass, const Variant &variant) {
    for (const MsdaWorkload &workload : {kMixed, kOddSizes}) {
        const GkaCase clean(workload, variant.type(), pass);
        int64_t reached = 0;
        const auto check = [&](std::vector<double> MsdaReferenceInputs::*numbers, size_t step, bool location) {
            for (size_t i = 0; i < (clean.in.*numbers).size(); i += step) {
                GkaCase c = clean;
                (c.in.*numbers)[i] = i / step % 3 == 0 ? kNan : i / step % 3 == 1 ? kInf : -kInf;
                if (location) {
                    // A sample that is nowhere must not bring in the cell that stands in for it.
                    for (size_t j = 0; j < c.in.value.size(); j += c.in.D * 7) {
                        c.in.value[j] = kNan;
                    }
                }
                const Outputs outputs = run(c);
                ASSERT_TRUE(matches(c, outputs, c.expected())) << "element " << i;
                for (const std::vector<double> &output : outputs) {
                    reached += std::count_if(output.begin(), output.end(), [](double x) { return !std::isfinite(x); });
                }
            }
        };
        check(&MsdaReferenceInputs::value, 29, false);
        check(&MsdaReferenceInputs::weights, 17, false);
        check(&MsdaReferenceInputs::locations, 37, true);
        if (pass == Pass::kBackward) {
            check(&MsdaReferenceInputs::grad_output, 13, false);
        }
        EXPECT_GT(reached, 0);
    }
    // Nothing but NaN, and every sample nowhere.
    GkaCase c(kMixed, variant.type(), pass);
    std::fill(c.in.value.begin(), c.in.value.end(), kNan);
    std::fill(c.in.grad_output.begin(), c.in.grad_output.end(), kNan);
    for (size_t i = 0; i < c.in.locations.size(); i += 2) {
        c.in.locations[i + i / 2 % 2] = i % 3 == 0 ? kNan : kInf;
    }
    for (const std::vector<double> &output : run(c)) {
        for (double x : output) {
            ASSERT_EQ(x, 0.0);
        }
    }
}

/// Levels that overlap, lie in any order, are empty or reach outside; and nonsense, which must do no harm.
void check_indices(Pass pass, const Variant &variant) {
    constexpr int64_t kMax = std::numeric_limits<int32_t>::max(), kMin = std::numeric_limits<int32_t>::min();
    struct Indices {
        std::vector<int64_t> shapes, starts;
        bool sensible;
    };
    const std::vector<int64_t> shapes = {4, 6, 3, 3, 2, 5};
    const Indices table[] = {
        {shapes, {0, 24, 33}, true},
        {shapes, {19, 10, 0}, true},
        {shapes, {0, 10, 15}, true},
        {shapes, {7, 7, 7}, true},
        {shapes, {-3, 24, 40}, true},
        {shapes, {49, -8, 60}, true},
        {{40, 60, 3, 3, 2, 5}, {0, 24, 33}, true},
        {{0, 6, 3, 0, 2, 5}, {0, 24, 33}, true},
        {{-4, 6, 3, -3, -2, -5}, {0, 24, 33}, true},
        {shapes, {kMax, kMin, kMax - 5}, true},
        {{kMax, kMax, kMax, 1, 1, kMax}, {0, 24, 33}, false},
        {{kMin, kMin, 65536, 65536, 46341, 46341}, {kMin, 0, kMax}, false},
        {{100000, 65536, 131072, 32768, 16777216, 256}, {0, 0, -kMax}, false},
    };
    for (const Indices &indices : table) {
        for (int64_t queries : {5, 200}) {
            GkaCase c({"", 2, queries, 2, 16, {{4, 6}, {3, 3}, {2, 5}}, 3, Locations::kWide}, variant.type(), pass);
            c.in.shapes = indices.shapes;
            c.in.starts = indices.starts;
            for (size_t i = 0; i < c.in.locations.size(); i += 11) {
                c.in.locations[i] = i % 2 == 0 ? 1e9 : 40000;
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

/// Wherever threads cut the queries, and however few are left over: sums are taken in the same order.
void check_tiles(Pass pass, const Variant &variant) {
    struct Sizes {
        int64_t channels, levels, points;
    };
    for (const Sizes &n :
         {Sizes{5, 1, 5}, {16, 1, 3}, {16, 2, 4}, {24, 2, 3}, {32, 1, 4}, {32, 1, 7}, {32, 4, 4}, {64, 2, 2}}) {
        const int64_t queries = 40000 / (n.levels * n.points) + 37;
        const MsdaWorkload workload = {
            "", 1, queries, 1, n.channels, std::vector<Level>(n.levels, Level{7, 9}), n.points, Locations::kWide};
        const GkaCase c(workload, variant.type(), pass);
        ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
        const Outputs alone = run(c);
        for (int threads : {2, 4, 7}) {
            ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
            EXPECT_TRUE(same_bits(run(c), alone))
                << n.channels << " channels, " << n.levels * n.points << " samples, " << threads;
        }
    }
}

void check_nan_threads(Pass pass, const Variant &variant) {
    std::vector<MsdaWorkload> workloads = msda_awkward_workloads();
    workloads.push_back(kCrowded);
    workloads.push_back({"many_tiles", 1, 4037, 1, 16, {{7, 9}, {3, 3}}, 5, Locations::kWide});
    for (const MsdaWorkload &workload : workloads) {
        SCOPED_TRACE(workload.name);
        const GkaCase c(workload, variant.type(), pass);
        if (!c.is_trivial()) {
            check_nans(c);
        }
    }
}

/// A column of more than 2^31 is the last one, also of a map that ends where float32 has no number.
void check_huge_maps(Pass pass, const Variant &variant) {
    constexpr int64_t kWidth = std::numeric_limits<int32_t>::max();
    GkaCase c({"", 1, 6, 1, 16, {{1, 4}}, 1, Locations::kWide}, variant.type(), pass);
    c.in.shapes = {1, kWidth};
    c.in.starts = {c.in.K - kWidth};
    for (size_t i = 0; i < c.in.locations.size(); i += 2) {
        c.in.locations[i] = i % 4 == 0 ? 2147483648.0 : 1e30;
        c.in.locations[i + 1] = 0;
    }
    for (const DLDataType dtype : {DLDataType{kDLFloat, 32, 1}, {kDLFloat, 64, 1}, {kDLBfloat, 16, 1}, {kDLInt, 64, 1}}) {
        c.set_location_dtype(dtype);
        check_against_reference(c);
    }
    // The lowest key that an int32 holds: the second row begins at key -1.
    c.in.shapes = {2, kWidth};
    c.in.starts = {std::numeric_limits<int32_t>::min()};
    for (size_t i = 0; i < c.in.locations.size(); i += 2) {
        c.in.locations[i] = static_cast<double>(i / 2 % (c.in.K + 2));
        c.in.locations[i + 1] = 1;
    }
    c.set_location_dtype({kDLFloat, 32, 1});
    check_against_reference(c);
}

/// The sum of output * grad_output, differenced along single inputs, is what backward says.
void check_differences(const Variant &) {
    for (const MsdaWorkload &workload : {kMixed, kOddSizes}) {
        const GkaCase backward(workload, Type::kF64, Pass::kBackward);
        const Outputs gradients = run(backward);
        std::mt19937 random(1);
        std::vector<double> MsdaReferenceInputs::*inputs[] = {&MsdaReferenceInputs::value, &MsdaReferenceInputs::weights};
        for (int which = 0; which < 2; which++) {
            for (int trial = 0; trial < 40; trial++) {
                GkaCase forward(workload, Type::kF64, Pass::kForward);
                std::vector<double> &numbers = forward.in.*inputs[which];
                const size_t i = random() % numbers.size();
                const double at = numbers[i], h = 1e-4;
                double sums[2];
                for (int side = 0; side < 2; side++) {
                    numbers[i] = at + (side == 0 ? -h : h);
                    const std::vector<double> output = run(forward)[0];
                    sums[side] = 0;
                    for (size_t j = 0; j < output.size(); j++) {
                        sums[side] += output[j] * backward.in.grad_output[j];
                    }
                }
                EXPECT_NEAR((sums[1] - sums[0]) / (2 * h), gradients[which][i], 1e-9) << "input " << which << ", element " << i;
            }
        }
    }
}

const bool registered = [] {
    static const MsdaWorkload many_heads = {"many_heads", 4, 100, 8, 32, {{9, 9}, {4, 4}}, 4, Locations::kWide};
    for (Pass pass : {Pass::kForward, Pass::kBackward}) {
        for (const MsdaWorkload &workload : msda_awkward_workloads()) {
            for_each_variant<GkaCase>(pass, "GkaShapes", workload.name,
                                      [=, &workload](const Variant &v) { check_shapes(pass, workload, v); });
        }
        const auto add = [&](const std::string &name, void (*check)(Pass, const Variant &)) {
            for_each_variant<GkaCase>(pass, "Gka", name, [=](const Variant &v) { check(pass, v); });
        };
        add("boundaries", check_boundaries);
        add("smallest_integers", check_smallest_integers);
        add("nonfinite", check_nonfinite);
        add("indices", check_indices);
        add("tiles", check_tiles);
        add("huge_maps", check_huge_maps);
        add("nans", check_nan_threads);
        for (const MsdaWorkload *workload : {&kMixed, &kOddSizes, &kCrowded, &many_heads}) {
            for_each_variant<GkaCase>(
                pass, "GkaThreads", workload->name,
                [=](const Variant &v) {
                    check_threads(GkaCase(*workload, v.type(), pass), {0.05, 0.4});
                },
                Rows::kThreads);
        }
        for (const auto *workload : {&kMixed, &kOddSizes}) {
            for_each_variant<GkaCase>(
                pass, "GkaStrides", workload->name,
                [=](const Variant &v) { check_strides(GkaCase(*workload, v.type(), pass)); }, Rows::kHost);
        }
    }
    for_each_variant<GkaCase>(Pass::kBackward, "Gka", "subsets",
                              [](const Variant &v) { check_subsets(GkaCase(kMixed, v.type(), Pass::kBackward), v); });
    static const MsdaWorkload wide = {"channels_8200", 2, 3, 2, 8200, {{3, 4}, {2, 2}}, 2, Locations::kWide};
    for_each_variant<GkaCase>(
        Pass::kForward, "GkaShapes", wide.name, [](const Variant &v) { check_shapes(Pass::kForward, wide, v); },
        Rows::kDevices);
    for (const MsdaWorkload *workload : {&kMixed, &kOddSizes, &kCrowded, &many_heads}) {
        for_each_variant<GkaCase>(
            Pass::kBackward, "GkaInOrder", workload->name,
            [=](const Variant &v) { check_in_order(GkaCase(*workload, v.type(), Pass::kBackward)); }, Rows::kDevices);
    }
    for_each_variant<GkaCase>(Pass::kBackward, "Gka", "differences", check_differences, Rows::kF64);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
