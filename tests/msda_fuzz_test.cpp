// Random shapes, strides, indices, locations, targets and numbers of threads against the reference.
//
// DEFORMKIT_FUZZ_SEED starts at a seed (else at a random one), DEFORMKIT_FUZZ_ITERATIONS sets how many calls follow. Every call
// has a seed of its own, one more than the last: a failure prints the one that repeats it.
#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <random>

#include "msda_case.h"
#include "variants.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

class Dice {
public:
    explicit Dice(uint32_t seed) : engine_(seed) {}

    int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
    bool one_in(int64_t n) { return between(1, n) == 1; }
    template <typename T>
    T any_of(const std::vector<T> &choices) {
        return choices[between(0, static_cast<int64_t>(choices.size()) - 1)];
    }
    template <typename T>
    void shuffle(std::vector<T> &sequence) {
        std::shuffle(sequence.begin(), sequence.end(), engine_);
    }

private:
    std::mt19937 engine_;
};

int64_t from_environment(const char *name, int64_t otherwise) {
    const char *value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoll(value, nullptr, 10);
}

std::vector<Variant> available_variants() {
    std::vector<Variant> variants;
    for (const Variant &variant : all_variants()) {
        if (variant.op == "msda" && variant.pass == "forward" && availability_of(variant.target) != Availability::kNo &&
            deformkit_set_target(variant.target.c_str()) == DEFORMKIT_OK && try_msda_forward(variant.type()) == DEFORMKIT_OK) {
            variants.push_back(variant);
        }
    }
    return variants;
}

Layout random_layout(Dice &dice, int axes, bool may_expand) {
    Layout layout;
    layout.guard = dice.any_of<Guard>({Guard::kAfter, Guard::kBefore});
    layout.byte_offset = dice.one_in(4) ? 8 * dice.between(0, 600) : 0;
    if (dice.one_in(2)) {
        return layout;
    }
    if (dice.one_in(2)) {
        for (int axis = 0; axis < axes; axis++) {
            layout.order.push_back(axis);
        }
        dice.shuffle(layout.order);
    }
    for (int axis = 0; axis < axes; axis++) {
        layout.step.push_back(dice.one_in(6) ? dice.between(2, 3) : 1);
        layout.pad.push_back(dice.one_in(6) ? dice.between(1, 40) : 0);
        layout.reversed.push_back(dice.one_in(6));
        layout.expanded.push_back(may_expand && dice.one_in(10));
    }
    return layout;
}

MsdaLayout random_layouts(Dice &dice) {
    MsdaLayout layout;
    layout.value = random_layout(dice, 4, true);
    layout.shapes = random_layout(dice, 2, false);
    layout.starts = random_layout(dice, 1, false);
    layout.locations = random_layout(dice, 6, true);
    layout.weights = random_layout(dice, 5, true);
    layout.output_by_head = dice.one_in(2);
    layout.output = random_layout(dice, layout.output_by_head ? 4 : 3, false);
    layout.index_bits = dice.any_of<int>({32, 64});
    return layout;
}

MsdaWorkload random_workload(Dice &dice) {
    MsdaWorkload workload;
    workload.batch = dice.one_in(20) ? 0 : dice.between(1, 4);
    workload.queries = dice.one_in(20) ? 0 : dice.any_of<int64_t>({1, 2, dice.between(1, 40), dice.between(1, 200)});
    workload.heads = dice.any_of<int64_t>({1, 8, dice.between(1, 9)});
    workload.channels = dice.any_of<int64_t>({16, 32, 64, dice.between(1, 20), dice.between(1, 140)});
    workload.points = dice.one_in(20) ? 0 : dice.any_of<int64_t>({4, 4, 2, 8, dice.between(1, 11)});
    const int64_t levels = dice.one_in(20) ? 0 : dice.any_of<int64_t>({1, 3, 4, dice.between(1, 7)});
    for (int64_t l = 0; l < levels; l++) {
        workload.levels.push_back({dice.one_in(15) ? 0 : dice.between(1, 18), dice.one_in(15) ? 0 : dice.between(1, 18)});
    }
    workload.locations = dice.any_of<Locations>({Locations::kNear, Locations::kWide, Locations::kBoxes});
    return workload;
}

void disturb_indices(Dice &dice, MsdaCase &c) {
    constexpr int64_t kMax32 = std::numeric_limits<int32_t>::max(), kMin32 = std::numeric_limits<int32_t>::min();
    for (std::vector<int64_t> *indices : {&c.shapes, &c.starts}) {
        for (int64_t &index : *indices) {
            if (dice.one_in(4)) {
                index = dice.any_of<int64_t>({index + 1, index - 1, -index, dice.between(-50, 50), dice.between(0, c.K + 2),
                                              c.K, dice.between(kMin32, kMax32), kMax32, kMin32, 65536, 46341});
            }
        }
    }
}

void disturb_locations(Dice &dice, MsdaCase &c) {
    for (double &location : c.locations) {
        if (dice.one_in(8)) {
            location =
                dice.any_of<double>({0, 1, 0.5, -0.5, 1.5, kNan, kInf, -kInf, 1e30, -1e30, -0.0, 1e-30,
                                     static_cast<double>(dice.between(-40, 40)) / static_cast<double>(dice.between(1, 40))});
        }
    }
}

void plant_nonfinite(Dice &dice, MsdaCase &c) {
    avoid_ties(c);
    for (int64_t i = c.value.empty() ? 0 : dice.between(1, 8); i > 0; i--) {
        c.value[dice.between(0, static_cast<int64_t>(c.value.size()) - 1)] = dice.any_of<double>({kNan, kInf, -kInf});
    }
}

void one_call(uint32_t seed, const std::vector<Variant> &variants) {
    Dice dice(seed);
    const MsdaWorkload workload = random_workload(dice);
    const Variant variant = dice.any_of(variants);
    MsdaCase c = make_case(workload, variant.type(), seed);
    switch (dice.between(0, 3)) {
        case 0:
            disturb_indices(dice, c);
            break;
        case 1:
            disturb_locations(dice, c);
            break;
        case 2:
            plant_nonfinite(dice, c);
            break;
        default:
            break;
    }
    const MsdaLayout layout = random_layouts(dice);
    ASSERT_EQ(deformkit_set_target(variant.target.c_str()), DEFORMKIT_OK);
    ASSERT_EQ(deformkit_set_num_threads(static_cast<int>(dice.between(1, 7))), DEFORMKIT_OK);
    SCOPED_TRACE(::testing::Message() << "to repeat it: DEFORMKIT_FUZZ_SEED=" << seed << " DEFORMKIT_FUZZ_ITERATIONS=1; "
                                      << variant.name() << ", B " << c.B << ", K " << c.K << ", M " << c.M << ", D " << c.D
                                      << ", Q " << c.Q << ", L " << c.L << ", P " << c.P);
    const MsdaCase stored = as_stored(c, layout);
    EXPECT_TRUE(matches_reference(stored, run(c, layout)));
}

TEST(Fuzz, RandomCalls) {
    const auto first = static_cast<uint32_t>(from_environment("DEFORMKIT_FUZZ_SEED", std::random_device()()));
    const int64_t iterations = from_environment("DEFORMKIT_FUZZ_ITERATIONS", 1000);
    std::cout << "DEFORMKIT_FUZZ_SEED=" << first << "\n";
    const std::vector<Variant> variants = available_variants();
    ASSERT_FALSE(variants.empty());
    for (int64_t i = 0; i < iterations && !HasFailure(); i++) {
        one_call(first + static_cast<uint32_t>(i), variants);
    }
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

}  // namespace
}  // namespace deformkit::testing
