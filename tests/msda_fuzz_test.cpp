// Random shapes, strides, indices, locations, targets and numbers of threads against the reference.
#include <algorithm>
#include <iostream>
#include <limits>

#include "tests/fuzz.h"
#include "tests/msda_case.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

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

void disturb_locations(Dice &dice, MsdaCase &c) {
    for (double &location : c.locations) {
        if (dice.one_in(8)) {
            location =
                dice.any_of<double>({0, 1, 0.5, -0.5, 1.5, kNan, kInf, -kInf, 1e30, -1e30, -0.0, 1e-30,
                                     static_cast<double>(dice.between(-40, 40)) / static_cast<double>(dice.between(1, 40))});
        }
    }
}

void plant_nonfinite(Dice &dice, MsdaCase &c, MsdaLayout &layout) {
    avoid_ties(c);
    // A location that stands for several levels would be free of ties on one of them only.
    layout.locations.expanded.clear();
    for (int64_t i = c.value.empty() ? 0 : dice.between(1, 8); i > 0; i--) {
        c.value[dice.between(0, static_cast<int64_t>(c.value.size()) - 1)] = dice.any_of<double>({kNan, kInf, -kInf});
    }
}

void one_call(uint32_t seed, const std::vector<Variant> &variants) {
    Dice dice(seed);
    const MsdaWorkload workload = random_workload(dice);
    const Variant variant = dice.any_of(variants);
    MsdaCase c = make_case(workload, variant.type(), seed);
    MsdaLayout layout = random_layouts(dice);
    switch (dice.between(0, 3)) {
        case 0:
            disturb_indices(dice, c.K, c.shapes);
            disturb_indices(dice, c.K, c.starts);
            break;
        case 1:
            disturb_locations(dice, c);
            break;
        case 2:
            plant_nonfinite(dice, c, layout);
            break;
        default:
            break;
    }
    ASSERT_EQ(deformkit_set_target(variant.target.c_str()), DEFORMKIT_OK);
    ASSERT_EQ(deformkit_set_num_threads(static_cast<int>(dice.between(1, 7))), DEFORMKIT_OK);
    SCOPED_TRACE(::testing::Message() << "to repeat it: DEFORMKIT_FUZZ_SEED=" << seed << " DEFORMKIT_FUZZ_ITERATIONS=1; "
                                      << variant.name() << ", B " << c.B << ", K " << c.K << ", M " << c.M << ", D " << c.D
                                      << ", Q " << c.Q << ", L " << c.L << ", P " << c.P);
    const MsdaCase stored = as_stored(c, layout);
    EXPECT_TRUE(matches_reference(stored, run(c, layout)));
}

TEST(Fuzz, RandomCalls) {
    const uint32_t first = first_fuzz_seed();
    const int64_t iterations = fuzz_iterations(1000);
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
