// MSDA backward: random types, shapes, strides, indices, locations, targets, numbers of threads and wanted gradients against
// the reference.
#include <cmath>
#include <iostream>
#include <limits>

#include "tests/fuzz.h"
#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

std::vector<Variant> available_variants() {
    std::vector<Variant> variants;
    for (const Variant &variant : all_variants()) {
        if (variant.op == "msda" && variant.pass == "backward_value" && availability_of(variant.target) != Availability::kNo &&
            deformkit_set_target(variant.target.c_str()) == DEFORMKIT_OK && try_msda_backward(variant.type()) == DEFORMKIT_OK) {
            variants.push_back(variant);
        }
    }
    return variants;
}

MsdaBackwardLayout random_layouts(Dice &dice) {
    MsdaBackwardLayout layout;
    layout.value = random_layout(dice, 4, true);
    layout.shapes = random_layout(dice, 2, false);
    layout.starts = random_layout(dice, 1, false);
    layout.locations = random_layout(dice, 6, true);
    layout.weights = random_layout(dice, 5, true);
    layout.grad_by_head = dice.one_in(2);
    layout.grad_output = random_layout(dice, layout.grad_by_head ? 4 : 3, true);
    layout.grad_value = random_layout(dice, 4, false);
    layout.grad_locations = random_layout(dice, 6, false);
    layout.grad_weights = random_layout(dice, 5, false);
    layout.index_bits = dice.any_of<int>({32, 64});
    return layout;
}

void disturb_locations(Dice &dice, MsdaBackwardCase &c) {
    for (double &location : c.locations) {
        if (dice.one_in(8)) {
            location =
                dice.any_of<double>({0, 1, 0.5, -0.5, 1.5, kNan, kInf, -kInf, 1e30, -1e30, -0.0, 1e-30,
                                     static_cast<double>(dice.between(-40, 40)) / static_cast<double>(dice.between(1, 40))});
        }
    }
    c.locations = rounded(c.type, c.locations);
}

void plant_nonfinite(Dice &dice, MsdaBackwardCase &c, MsdaBackwardLayout &layout) {
    avoid_ties(c);
    // A location that stands for several levels would be free of ties on one of them only.
    layout.locations.expanded.clear();
    auto &input = c.*dice.any_of<std::vector<double> MsdaBackwardInputs::*>(
                         {&MsdaBackwardInputs::value, &MsdaBackwardInputs::weights, &MsdaBackwardInputs::grad_output});
    for (int64_t i = input.empty() ? 0 : dice.between(1, 8); i > 0; i--) {
        input[dice.between(0, static_cast<int64_t>(input.size()) - 1)] = dice.any_of<double>({kNan, kInf, -kInf});
    }
}

void one_call(uint32_t seed, const std::vector<Variant> &variants) {
    Dice dice(seed);
    const MsdaWorkload workload = random_workload(dice);
    const Variant variant = dice.any_of(variants);
    MsdaBackwardCase c = make_backward_case(workload, variant.type(), seed);
    MsdaBackwardLayout layout = random_layouts(dice);
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
    const Wanted wanted = {!dice.one_in(4), !dice.one_in(4), !dice.one_in(4)};
    ASSERT_EQ(deformkit_set_target(variant.target.c_str()), DEFORMKIT_OK);
    ASSERT_EQ(deformkit_set_num_threads(static_cast<int>(dice.between(1, 7))), DEFORMKIT_OK);
    SCOPED_TRACE(::testing::Message() << "to repeat it: DEFORMKIT_FUZZ_SEED=" << seed << " DEFORMKIT_FUZZ_ITERATIONS=1; "
                                      << variant.name() << ", B " << c.B << ", K " << c.K << ", M " << c.M << ", D " << c.D
                                      << ", Q " << c.Q << ", L " << c.L << ", P " << c.P << ", wanted " << wanted.value
                                      << wanted.locations << wanted.weights);
    const MsdaBackwardCase stored = as_stored(c, layout);
    EXPECT_TRUE(matches_reference(stored, run(c, layout, wanted)));
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
