// The rows of variants.cmake, and tests that run once for each of them.
#pragma once

#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/place.h"
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

/// Where tensors for kernels of this target may be: in host memory, and in a device's that tests can fill.
std::vector<Place> places_of(const std::string &target);

/// What the system says of this CPU's features about a target: /proc/cpuinfo against the features of its row.
Availability availability_of(const std::string &target);

/// Whether sums of gradients may be added up in any order: on GPUs, for the length of a VariantTest.
bool sums_vary();
/// Whether calls run on a device, for the length of a VariantTest: one that is made of a CPU takes its time.
bool on_device();

/// Forces a variant for the length of a test, on tensors in that place; skips the test where the machine lacks it.
class VariantTest : public ::testing::Test {
public:
    using Body = std::function<void(const Variant &)>;
    /// The smallest call there is, to find out whether the chosen target works here.
    using Probe = std::function<deformkit_status(Type)>;
    VariantTest(const Variant &variant, Place place, Probe probe, Body body)
        : variant_(variant), place_(place), probe_(std::move(probe)), body_(std::move(body)) {}

    void SetUp() override;
    void TestBody() override { body_(variant_); }
    void TearDown() override;

private:
    Variant variant_;
    PlaceScope place_;
    Probe probe_;
    Body body_;
};

}  // namespace deformkit::testing
