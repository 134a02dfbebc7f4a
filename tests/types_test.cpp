// The software conversions, against numbers worked out by hand.
#include "tests/support/types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace deformkit::testing {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

uint16_t bits_of(Type type, double number) {
    uint16_t bits;
    encode(type, number, &bits);
    return bits;
}

TEST(Types, BitPatterns) {
    EXPECT_EQ(bits_of(Type::kF16, 1), 0x3c00);
    EXPECT_EQ(bits_of(Type::kF16, -2), 0xc000);
    EXPECT_EQ(bits_of(Type::kF16, 65504), 0x7bff);
    EXPECT_EQ(bits_of(Type::kF16, 0x1p-14), 0x0400);
    EXPECT_EQ(bits_of(Type::kF16, 0x1p-24), 0x0001);
    EXPECT_EQ(bits_of(Type::kF16, 1.0 / 3), 0x3555);
    EXPECT_EQ(bits_of(Type::kF16, -kInf), 0xfc00);
    EXPECT_EQ(bits_of(Type::kF16, -0.0), 0x8000);
    EXPECT_EQ(bits_of(Type::kBf16, 1), 0x3f80);
    EXPECT_EQ(bits_of(Type::kBf16, 1.0 / 3), 0x3eab);
    EXPECT_EQ(bits_of(Type::kBf16, 0x1p-133), 0x0001);
    EXPECT_EQ(bits_of(Type::kBf16, 0x1.fep127), 0x7f7f);
}

TEST(Types, TiesGoToEvenAndOverflowToInfinity) {
    EXPECT_EQ(nearest(Type::kF16, 2049), 2048);
    EXPECT_EQ(nearest(Type::kF16, 2051), 2052);
    EXPECT_EQ(nearest(Type::kF16, 2049.001), 2050);
    EXPECT_EQ(nearest(Type::kF16, 65519.99), 65504);
    EXPECT_EQ(nearest(Type::kF16, 65520), kInf);
    EXPECT_EQ(nearest(Type::kF16, -1e9), -kInf);
    EXPECT_EQ(nearest(Type::kF16, 0x1p-25), 0);
    EXPECT_EQ(nearest(Type::kF16, 0x1.8p-24), 0x1p-23);
    EXPECT_EQ(nearest(Type::kBf16, 257), 256);
    EXPECT_EQ(nearest(Type::kBf16, 259), 260);
    EXPECT_EQ(nearest(Type::kBf16, 3.4e38), kInf);
    EXPECT_EQ(largest(Type::kF16), 65504);
    EXPECT_EQ(largest(Type::kF32), std::numeric_limits<float>::max());
    EXPECT_EQ(largest(Type::kF64), std::numeric_limits<double>::max());
    EXPECT_TRUE(std::isnan(nearest(Type::kF16, std::nan(""))));
    for (double x : {0.1, -1e-40, 1e-45, 3e38, 16777217.0, 1e39}) {
        EXPECT_EQ(nearest(Type::kF32, x), static_cast<double>(static_cast<float>(x))) << x;
    }
}

TEST(Types, EveryPatternSurvives) {
    for (Type type : {Type::kF16, Type::kBf16}) {
        for (uint32_t i = 0; i < 0x10000; i++) {
            const auto bits = static_cast<uint16_t>(i);
            const double number = decode(type, &bits);
            ASSERT_EQ(bits_of(type, number), bits) << i;
            ASSERT_TRUE(std::isnan(number) || nearest(type, number) == number) << i;
        }
    }
}

TEST(Types, NeighboursAreOnePatternAway) {
    for (Type type : {Type::kF16, Type::kBf16}) {
        for (uint16_t bits = 0; bits < bits_of(type, largest(type)); bits++) {
            const uint16_t next = bits + 1;
            const double low = decode(type, &bits), high = decode(type, &next);
            ASSERT_EQ(neighbour(type, low, 1), high) << bits;
            ASSERT_EQ(neighbour(type, high, -1), low) << bits;
            ASSERT_EQ(neighbour(type, -low, -1), -high) << bits;
        }
    }
    EXPECT_EQ(neighbour(Type::kF32, 1, -1), 1 - 0x1p-24);
    EXPECT_EQ(neighbour(Type::kF64, 1, 1), 1 + 0x1p-52);
    EXPECT_EQ(neighbour(Type::kF16, 0, -1), -0x1p-24);
}

TEST(Types, Names) {
    for (const Type type : kAllTypes) {
        EXPECT_EQ(type_of(dtype_of(type)), type);
        EXPECT_EQ(type_named(name_of(type)), type);
    }
    EXPECT_THROW(type_named("f8"), std::invalid_argument);
}

}  // namespace
}  // namespace deformkit::testing
