// The rows of variants.cmake, and tests that run once for each of them.
#pragma once

#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/types.h"

namespace deformkit::testing {

struct Variant {
    std::string op, pass, type_name, target;
    std::string serves;  ///< another pass, where this runs in place of that one's row

    Type type() const { return type_named(type_name); }
    std::string name() const { return op + "_" + pass + "_" + type_name + "_" + target; }
    /// Whether a call on this row may run `kernel`: its own, or one that runs in its place.
    bool is_served_by(const std::string &kernel) const;
};

/// All rows, best first within each operator, pass and type.
const std::vector<Variant> &all_variants();

enum class Availability {
    kYes,
    kNo,
    kAsk,  ///< no feature of this CPU decides: the library has to say
};

/// What the system says of this CPU's features about a target: /proc/cpuinfo against the features of its row.
Availability availability_of(const std::string &target);

/// Forces a variant for the length of a test; skips the test where the machine lacks it.
class VariantTest : public ::testing::Test {
public:
    using Body = std::function<void(const Variant &)>;
    /// The smallest call there is, to find out whether the chosen target works here.
    using Probe = std::function<deformkit_status(Type)>;
    VariantTest(const Variant &variant, Probe probe, Body body)
        : variant_(variant), probe_(std::move(probe)), body_(std::move(body)) {}

    void SetUp() override;
    void TestBody() override { body_(variant_); }
    void TearDown() override;

private:
    Variant variant_;
    Probe probe_;
    Body body_;
};

}  // namespace deformkit::testing
