// What a kernel reads and writes, number by number: a sample at a cell's centre is the product of cell and weight, rounded once
// by arithmetic and once by the type.
#include <cmath>
#include <random>

#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

/// Every bit pattern of a 16 bit type, as many random ones of a longer; those that `keep` does not want are 0.
template <typename Keep>
std::vector<double> patterns(Type type, Keep &&keep) {
    std::mt19937_64 random(1);
    std::vector<double> numbers;
    for (uint32_t i = 0; i < 0x10000; i++) {
        const uint64_t bits = size_of(type) == 2 ? i : random();  // little-endian, as everything here
        const double number = decode(type, &bits);
        numbers.push_back(keep(number) ? number : 0);
    }
    return numbers;
}

constexpr int64_t kSide = 64;

/// Maps whose cells' centres even bfloat16 can tell apart; each query at a centre of its own. Points beyond the first are
/// outside: with enough of them, kernels may go another way.
MsdaCase centres_case(Type type, int64_t points) {
    MsdaCase c({"", 1, kSide * kSide, 1, 16, {{kSide, kSide}}, points, Locations::kWide}, type, Pass::kForward);
    for (size_t i = 0; i < c.in.locations.size(); i += 2) {
        const auto point = static_cast<int64_t>(i) / 2 % points, query = static_cast<int64_t>(i) / 2 / points;
        c.in.locations[i] = point > 0 ? 7 : (static_cast<double>(query % kSide) + 0.5) / kSide;
        c.in.locations[i + 1] = (static_cast<double>(query / kSide) + 0.5) / kSide;
    }
    return c;
}

void check_products(const Variant &variant) {
    const Type type = variant.type();
    const double subnormal = type == Type::kF64 ? 0x1p-1074 : 0x1p-149;  // of arithmetic
    for (int64_t points : {1, 4}) {
        MsdaCase c = centres_case(type, points);
        c.in.value = patterns(type, [](double x) { return std::isfinite(x); });
        for (double factor : {1.0, -1.0, 1.5, 1 / 3.0, 1 + 1 / 64.0, 0.7, 1e-3, 1e3, 1e-30, largest(type)}) {
            const double weight = nearest(type, factor);
            c.in.weights.assign(c.in.weights.size(), weight);
            const std::vector<double> output = run(c)[0];
            int64_t inexact = 0;
            for (size_t i = 0; i < output.size(); i++) {
                const double product = c.in.value[i] * weight;
                const double expected = nearest(type, type == Type::kF64 ? product : nearest(Type::kF32, product));
                // A cell at the map's last row or column takes the product in two or four equal parts, which are added up.
                const int64_t cell = static_cast<int64_t>(i) / c.in.D;
                const bool in_parts = cell % kSide == kSide - 1 || cell / kSide == kSide - 1;
                const double tolerance = in_parts ? std::fabs(product) * 2 * rounding_of_arithmetic(type) + 2 * subnormal : 0;
                ASSERT_TRUE(output[i] == expected || std::fabs(output[i] - expected) <= tolerance)
                    << c.in.value[i] << " * " << weight << ", " << points << " points: " << output[i] << ", not " << expected;
                inexact += expected != product;
            }
            EXPECT_TRUE(inexact > 0 || weight == 0 || std::fabs(weight) == 1 || type == Type::kF64) << weight;
        }
    }
}

/// Whatever its payload. (The last of the negative ones is what poison looks like.)
void check_nan(const Variant &variant) {
    const Type type = variant.type();
    std::vector<double> nans;
    for (double x : patterns(type, [](double) { return true; })) {
        if (std::isnan(x) && !std::signbit(x)) {
            nans.push_back(x);
        }
    }
    if (nans.empty()) {
        nans.push_back(std::nan(""));
    }
    MsdaCase c({"", static_cast<int64_t>(nans.size()), 1, 1, 1, {{1, 1}}, 1, Locations::kWide}, type, Pass::kForward);
    c.in.locations.assign(c.in.locations.size(), 0.5);
    c.in.value = nans;
    const Outputs outputs = run(c);
    for (double x : outputs[0]) {
        ASSERT_TRUE(std::isnan(x)) << x;
    }
}

const bool registered = [] {
    for_each_variant<MsdaCase>(Pass::kForward, "MsdaConversions", "products", check_products);
    for_each_variant<MsdaCase>(Pass::kForward, "MsdaConversions", "nan", check_nan);
    return true;
}();

}  // namespace
}  // namespace deformkit::testing
