// Random calls of deformable aggregation and geometric kernel attention against their references.
#include <iostream>
#include <limits>

#include "tests/da_case.h"
#include "tests/fuzz.h"
#include "tests/gka_case.h"

namespace deformkit::testing {
namespace {

std::vector<Level> random_maps(Dice &dice, int64_t most) {
    std::vector<Level> maps;
    for (int64_t i = dice.one_in(20) ? 0 : dice.between(1, most); i > 0; i--) {
        maps.push_back({dice.one_in(15) ? 0 : dice.between(1, 14), dice.one_in(15) ? 0 : dice.between(1, 14)});
    }
    return maps;
}

void disturb(Dice &dice, int64_t keys, std::vector<int64_t> &indices) {
    for (int64_t &index : indices) {
        if (dice.one_in(4)) {
            index =
                dice.any_of<int64_t>({index + 1, index - 1, -index, dice.between(-50, 50), dice.between(0, keys + 2), keys});
        }
    }
}

const double kOdd[] = {0,    1, -0.25, 1.5, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                       -1e30};

template <typename Case>
void check(Dice &dice, Case &c, uint32_t seed, const char *op, const char *pass) {
    std::vector<std::string> targets;
    for (const Variant &variant : all_variants()) {
        if (variant.op == op && variant.pass == pass && variant.type() == c.type() &&
            availability_of(variant.target) == Availability::kYes) {
            targets.push_back(variant.target);
        }
    }
    ASSERT_FALSE(targets.empty());
    const std::string target = dice.any_of(targets);
    ASSERT_EQ(deformkit_set_target(target.c_str()), DEFORMKIT_OK);
    ASSERT_EQ(deformkit_set_num_threads(static_cast<int>(dice.between(1, 7))), DEFORMKIT_OK);
    SCOPED_TRACE(::testing::Message() << "to repeat it: DEFORMKIT_FUZZ_SEED=" << seed << " DEFORMKIT_FUZZ_ITERATIONS=1; " << op
                                      << "_" << pass << ", type " << static_cast<int>(c.type()) << ", " << target);
    const Outputs outputs = run(c, random_layouts(c, seed));
    EXPECT_TRUE(matches(c, outputs, c.expected()));
}

void one_da_call(Dice &dice, uint32_t seed, Type type, bool backward) {
    const DaWorkload workload = {"",
                                 dice.one_in(20) ? 0 : dice.between(1, 3),
                                 dice.one_in(20) ? 0 : dice.between(1, 30),
                                 dice.one_in(20) ? 0 : dice.any_of<int64_t>({1, 13, 17, dice.between(1, 40), 700}),
                                 dice.between(1, 4),
                                 random_maps(dice, 4),
                                 dice.any_of<int64_t>({1, 2, 4, 8, 16, dice.between(1, 9)}),
                                 dice.any_of<int64_t>({16, 32, 64, dice.between(1, 20), dice.between(1, 70)}),
                                 dice.any_of<double>({0.1, 0.5, 1})};
    DaCase c(workload, type, backward ? DaCase::Pass::kBackward : DaCase::Pass::kForward, seed);
    if (dice.one_in(3)) {
        disturb(dice, c.in.K, c.in.shapes);
        disturb(dice, c.in.K, c.in.starts);
        c.avoid_ties();
    }
    for (size_t i = dice.between(0, 9); dice.one_in(3) && i < c.in.locations.size(); i += 9) {
        c.in.locations[i] = kOdd[i / 9 % 7];
    }
    check(dice, c, seed, "da", backward ? "backward_value" : "forward");
}

void one_gka_call(Dice &dice, uint32_t seed, Type type, bool backward) {
    const MsdaWorkload workload = {"",
                                   dice.one_in(20) ? 0 : dice.between(1, 3),
                                   dice.one_in(20) ? 0 : dice.any_of<int64_t>({1, dice.between(1, 40), 200}),
                                   dice.any_of<int64_t>({1, 8, dice.between(1, 9)}),
                                   dice.any_of<int64_t>({16, 32, 64, dice.between(1, 20), dice.between(1, 70)}),
                                   random_maps(dice, 5),
                                   dice.one_in(20) ? 0 : dice.any_of<int64_t>({4, 8, dice.between(1, 11)}),
                                   Locations::kWide};
    GkaCase c(workload, type, backward ? GkaCase::Pass::kBackward : GkaCase::Pass::kForward, seed);
    c.set_location_dtype(dice.any_of<DLDataType>({{kDLFloat, 32, 1},
                                                  {kDLFloat, 32, 1},
                                                  {kDLFloat, 64, 1},
                                                  {kDLFloat, 16, 1},
                                                  {kDLBfloat, 16, 1},
                                                  {kDLInt, 8, 1},
                                                  {kDLInt, 16, 1},
                                                  {kDLInt, 32, 1},
                                                  {kDLInt, 64, 1}}));
    if (dice.one_in(3)) {
        disturb(dice, c.in.K, c.in.shapes);
        disturb(dice, c.in.K, c.in.starts);
    }
    for (size_t i = dice.between(0, 9); dice.one_in(3) && i < c.in.locations.size(); i += 9) {
        c.in.locations[i] = kOdd[i / 9 % 7];
    }
    check(dice, c, seed, "gka", backward ? "backward_value" : "forward");
}

TEST(ProblemFuzz, RandomCalls) {
    const uint32_t first = first_fuzz_seed();
    const int64_t iterations = fuzz_iterations(600);
    std::cout << "DEFORMKIT_FUZZ_SEED=" << first << "\n";
    for (int64_t i = 0; i < iterations && !HasFailure(); i++) {
        const uint32_t seed = first + static_cast<uint32_t>(i);
        Dice dice(seed);
        const Type type = dice.any_of<Type>({Type::kF32, Type::kF32, Type::kF16, Type::kBf16, Type::kF64});
        const bool backward = dice.one_in(2);
        dice.one_in(2) ? one_da_call(dice, seed, type, backward) : one_gka_call(dice, seed, type, backward);
    }
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

}  // namespace
}  // namespace deformkit::testing
