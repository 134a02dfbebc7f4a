// Random calls of every operator and pass against their references: types, shapes, strides, indices, locations, targets,
// numbers of threads and wanted outputs.
#include "tests/fuzz.h"

#include <iostream>
#include <limits>

#include "tests/da_case.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

template <typename Case>
std::vector<Variant> available_variants(Pass pass) {
    std::vector<Variant> variants;
    for (const Variant &variant : rows_of(Case::kOperator, pass, Rows::kAll)) {
        if (availability_of(variant.target) != Availability::kNo &&
            deformkit_set_target(variant.target.c_str()) == DEFORMKIT_OK &&
            try_smallest<Case>(pass, variant.type()) == DEFORMKIT_OK) {
            variants.push_back(variant);
        }
    }
    return variants;
}

void disturb_locations(Dice &dice, std::vector<double> &locations) {
    for (double &location : locations) {
        if (dice.one_in(8)) {
            location =
                dice.any_of<double>({0, 1, 0.5, -0.5, 1.5, kNan, kInf, -kInf, 1e30, -1e30, -0.0, 1e-30,
                                     static_cast<double>(dice.between(-40, 40)) / static_cast<double>(dice.between(1, 40))});
        }
    }
}

/// Where coordinates only tell cells apart, ties are everywhere and do no harm.
void avoid_ties(GkaCase &) {}
template <typename Case>
void avoid_ties(Case &c) {
    c.avoid_ties();
}

/// NaN and infinities in the maps, and in a backward in any input that is summed over.
template <typename Case>
void plant_nonfinite(Dice &dice, Case &c) {
    std::vector<std::vector<double> *> inputs;
    for (const auto &[name, numbers] : c.numbers()) {
        if (numbers != &c.in.locations && (c.pass() == Pass::kBackward || inputs.empty())) {
            inputs.push_back(numbers);
        }
    }
    std::vector<double> &input = *dice.any_of(inputs);
    for (int64_t i = input.empty() ? 0 : dice.between(1, 8); i > 0; i--) {
        input[dice.between(0, static_cast<int64_t>(input.size()) - 1)] = dice.any_of<double>({kNan, kInf, -kInf});
    }
}

template <typename Case>
void one_call(Dice &dice, Case c, const Variant &variant, uint32_t seed, bool ties_matter) {
    Layouts layouts = random_layouts(c, seed);
    // A location that stands for several levels, or a number on a line between cells, would have two right results.
    const auto settle = [&] {
        avoid_ties(c);
        for (auto &[name, layout] : layouts.of) {
            if (name.find("locations") != std::string::npos) {
                layout.expanded.clear();
            }
        }
    };
    switch (dice.between(0, 3)) {
        case 0:
            disturb_indices(dice, c.in.K, c.in.shapes);
            disturb_indices(dice, c.in.K, c.in.starts);
            break;
        case 1:
            disturb_locations(dice, c.in.locations);
            break;
        case 2:
            settle();
            plant_nonfinite(dice, c);
            break;
        default:
            break;
    }
    if (ties_matter) {
        settle();
    }
    for (const Operand &operand : c.operands()) {
        if (operand.output && c.pass() == Pass::kBackward && dice.one_in(4)) {
            layouts.left_out.insert(operand.name);
        }
    }
    ASSERT_EQ(deformkit_set_target(variant.target.c_str()), DEFORMKIT_OK);
    ASSERT_EQ(deformkit_set_num_threads(static_cast<int>(dice.between(1, 7))), DEFORMKIT_OK);
    const Case stored = as_stored(c, layouts);
    EXPECT_TRUE(matches(stored, run(c, layouts)));
}

std::vector<Level> random_maps(Dice &dice, int64_t most) {
    std::vector<Level> maps;
    for (int64_t i = dice.one_in(20) ? 0 : dice.between(1, most); i > 0; i--) {
        maps.push_back({dice.one_in(15) ? 0 : dice.between(1, 14), dice.one_in(15) ? 0 : dice.between(1, 14)});
    }
    return maps;
}

MsdaCase random_case(Dice &dice, Type type, Pass pass, uint32_t seed, const MsdaCase *) {
    return {random_workload(dice), type, pass, seed};
}

GkaCase random_case(Dice &dice, Type type, Pass pass, uint32_t seed, const GkaCase *) {
    GkaCase c(random_workload(dice), type, pass, seed);
    c.set_location_dtype(dice.any_of<DLDataType>({{kDLFloat, 32, 1},
                                                  {kDLFloat, 32, 1},
                                                  {kDLFloat, 64, 1},
                                                  {kDLFloat, 16, 1},
                                                  {kDLBfloat, 16, 1},
                                                  {kDLInt, 8, 1},
                                                  {kDLInt, 16, 1},
                                                  {kDLInt, 32, 1},
                                                  {kDLInt, 64, 1}}));
    return c;
}

DaCase random_case(Dice &dice, Type type, Pass pass, uint32_t seed, const DaCase *) {
    const DaWorkload workload = {"",
                                 dice.one_in(20) ? 0 : dice.between(1, 3),
                                 dice.one_in(20) ? 0 : dice.between(1, 30),
                                 dice.one_in(20) ? 0 : dice.any_of<int64_t>({1, 13, 17, dice.between(1, 40), 700}),
                                 dice.between(1, 4),
                                 random_maps(dice, 4),
                                 dice.any_of<int64_t>({1, 2, 4, 8, 16, dice.between(1, 9)}),
                                 dice.any_of<int64_t>({16, 32, 64, dice.between(1, 20), dice.between(1, 70)}),
                                 dice.any_of<double>({0.1, 0.5, 1})};
    return {workload, type, pass, seed};
}

template <typename Case>
void check_random_calls(int64_t most, bool ties_matter) {
    const uint32_t first = first_fuzz_seed();
    const int64_t iterations = fuzz_iterations(most);
    std::cout << "DEFORMKIT_FUZZ_SEED=" << first << "\n";
    const std::vector<Variant> variants[] = {available_variants<Case>(Pass::kForward),
                                             available_variants<Case>(Pass::kBackward)};
    ASSERT_FALSE(variants[0].empty() || variants[1].empty());
    for (int64_t i = 0; i < iterations && !::testing::Test::HasFailure(); i++) {
        const uint32_t seed = first + static_cast<uint32_t>(i);
        Dice dice(seed);
        const bool backward = dice.one_in(2);
        const Variant variant = dice.any_of(variants[backward]);
        SCOPED_TRACE(::testing::Message() << "to repeat it: DEFORMKIT_FUZZ_SEED=" << seed << " DEFORMKIT_FUZZ_ITERATIONS=1; "
                                          << variant.name());
        const Pass pass = backward ? Pass::kBackward : Pass::kForward;
        one_call(dice, random_case(dice, variant.type(), pass, seed, static_cast<const Case *>(nullptr)), variant, seed,
                 ties_matter);
    }
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

TEST(Fuzz, Msda) {
    check_random_calls<MsdaCase>(800, false);
}

// The reference of deformable aggregation has one result for each location.
TEST(Fuzz, Da) {
    check_random_calls<DaCase>(300, true);
}

TEST(Fuzz, Gka) {
    check_random_calls<GkaCase>(400, false);
}

}  // namespace
}  // namespace deformkit::testing
