#include "tests/variants.h"

#include <cpuid.h>

#include "tests/support/guarded.h"

namespace deformkit::testing {

namespace {

/// Not every compiler's __builtin_cpu_supports has a name for it.
bool has_f16c() {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

const std::vector<Variant> &all_variants() {
    static const std::vector<Variant> variants = {
#define DEFORMKIT_VARIANT(op, pass, type, target, ...) {#op, #pass, #type, #target},
#include "deformkit_variants.inc"
#undef DEFORMKIT_VARIANT
    };
    return variants;
}

Availability availability_of(const std::string &target) {
    const auto known = [](bool supported) { return supported ? Availability::kYes : Availability::kNo; };
    __builtin_cpu_init();
    if (target == "sse41") {
        return known(__builtin_cpu_supports("sse4.1"));
    }
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    if (target == "avx2") {
        return known(avx2);
    }
    if (target == "avx512") {
        return known(avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                     __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                     __builtin_cpu_supports("avx512bw"));
    }
    if (target == "opencl") {
        return Availability::kAsk;
    }
    ADD_FAILURE() << "tests/variants.cpp does not know what target " << target << " needs";
    return Availability::kAsk;
}

void VariantTest::SetUp() {
    ASSERT_EQ(deformkit_set_target(variant_.target.c_str()), DEFORMKIT_OK) << deformkit_last_error();
    const deformkit_status status = probe_(variant_.type());
    const Availability availability = availability_of(variant_.target);
    if (status == DEFORMKIT_NO_VARIANT && availability != Availability::kYes) {
        GTEST_SKIP() << "this machine lacks it: " << deformkit_last_error();
    }
    ASSERT_EQ(status, DEFORMKIT_OK) << deformkit_last_error();
    ASSERT_NE(availability, Availability::kNo) << "ran although this CPU lacks a feature that it needs";
    ASSERT_EQ(deformkit_last_variant(), variant_.name());
}

void VariantTest::TearDown() {
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

void for_each_variant(const std::string &op, const std::string &pass, const std::string &suite, const std::string &name,
                      const VariantTest::Probe &probe, const VariantTest::Body &body, const std::string &type) {
    for (const Variant &variant : all_variants()) {
        if (variant.op != op || variant.pass != pass || (!type.empty() && variant.type_name != type)) {
            continue;
        }
        const std::string test = variant.name() + "/" + name;
        ::testing::RegisterTest(suite.c_str(), test.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                                [=]() -> VariantTest * { return new VariantTest(variant, probe, body); });
    }
}

void for_each_msda_forward_variant(const std::string &suite, const std::string &name, const VariantTest::Body &body) {
    for_each_variant("msda", "forward", suite, name, try_msda_forward, body);
}

deformkit_status try_msda_forward(Type type) {
    GuardedTensor value(dtype_of(type), {1, 1, 1, 1}), shapes(dtype_of<int32_t>(), {1, 2}), starts(dtype_of<int32_t>(), {1});
    GuardedTensor locations(dtype_of(type), {1, 1, 1, 1, 1, 2}), weights(dtype_of(type), {1, 1, 1, 1, 1});
    GuardedTensor output(dtype_of(type), {1, 1, 1});
    value.store_numbers({3});
    shapes.store<int32_t>({1, 1});
    starts.store<int32_t>({0});
    locations.store_numbers({0.5, 0.5});
    weights.store_numbers({2});
    const deformkit_status status =
        deformkit_msda_forward(value.dl(), shapes.dl(), starts.dl(), locations.dl(), weights.dl(), output.dl());
    if (status == DEFORMKIT_OK) {
        EXPECT_EQ(output.load_numbers()[0], 6.0);
    } else {
        EXPECT_TRUE(output.all_poison()) << "a refused call wrote something";
    }
    return status;
}

}  // namespace deformkit::testing
