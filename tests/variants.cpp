#include "tests/variants.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace deformkit::testing {

namespace {

bool for_device = false, for_gradients = false;

/// The same feature is sse4.1 and sse4_1, avx512bf16 and avx512_bf16.
std::string plain(std::string feature) {
    feature.erase(std::remove_if(feature.begin(), feature.end(), [](char c) { return c == '.' || c == '_'; }), feature.end());
    return feature;
}

/// Of the first processor, as the system lists them.
const std::set<std::string> &cpu_features() {
    static const std::set<std::string> features = [] {
        std::set<std::string> names;
        std::ifstream info("/proc/cpuinfo");
        for (std::string line; names.empty() && std::getline(info, line);) {
            if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0) {
                std::istringstream words(line.substr(line.find(':') + 1));
                for (std::string word; words >> word;) {
                    names.insert(plain(word));
                }
            }
        }
        EXPECT_FALSE(names.empty()) << "/proc/cpuinfo lists no features";
        return names;
    }();
    return features;
}

struct TargetRow {
    std::string name;
    DLDeviceType device;
    std::string cpu_features;
};

const std::vector<TargetRow> &all_targets() {
    static const std::vector<TargetRow> targets = {
#define DEFORMKIT_TARGET(name, supported, device, interface, cpu_features) {#name, device, cpu_features},
#include "deformkit_targets.inc"
#undef DEFORMKIT_TARGET
    };
    return targets;
}

}  // namespace

bool Variant::is_served_by(const std::string &kernel) const {
    const auto &rows = all_variants();
    return std::any_of(rows.begin(), rows.end(), [&](const Variant &v) {
        return v.name() == kernel && v.op == op && v.serves == pass && v.type_name == type_name && v.target == target;
    });
}

const std::vector<Variant> &all_variants() {
    static const std::vector<Variant> variants = {
#define DEFORMKIT_VARIANT(op, pass, type, target, serves, ...) {#op, #pass, #type, #target, #serves},
#include "deformkit_variants.inc"
#undef DEFORMKIT_VARIANT
    };
    return variants;
}

Availability availability_of(const std::string &target) {
    const auto row = std::find_if(all_targets().begin(), all_targets().end(), [&](const auto &t) { return t.name == target; });
    if (row == all_targets().end()) {
        ADD_FAILURE() << "no target " << target;
        return Availability::kNo;
    }
    std::istringstream features(row->cpu_features);
    for (std::string feature; features >> feature;) {
        if (cpu_features().count(plain(feature)) == 0) {
            return Availability::kNo;
        }
    }
    return row->device == kDLCPU ? Availability::kYes : Availability::kAsk;
}

std::vector<Place> places_of(const std::string &target) {
    const auto row = std::find_if(all_targets().begin(), all_targets().end(), [&](const auto &t) { return t.name == target; });
    std::vector<Place> places = {Place::kHost};
    if (row != all_targets().end() && row->device != kDLCPU) {
        places.push_back(row->device == kDLCUDA ? Place::kCuda : Place::kOpenCl);
    }
    return places;
}

bool sums_vary() {
    return for_device && for_gradients;
}
bool on_device() {
    return for_device;
}

void VariantTest::SetUp() {
    if (!is_there(current_place())) {
        GTEST_SKIP() << "no such device here";
    }
    ASSERT_EQ(deformkit_set_target(variant_.target.c_str()), DEFORMKIT_OK) << deformkit_last_error();
    const deformkit_status status = probe_(variant_.type());
    const Availability availability = availability_of(variant_.target);
    if (status == DEFORMKIT_NO_VARIANT && availability != Availability::kYes) {
        GTEST_SKIP() << "this machine lacks it: " << deformkit_last_error();
    }
    ASSERT_EQ(status, DEFORMKIT_OK) << deformkit_last_error();
    ASSERT_NE(availability, Availability::kNo) << "ran although this CPU lacks a feature that it needs";
    ASSERT_TRUE(variant_.is_served_by(deformkit_last_variant())) << deformkit_last_variant();
    for_device = places_of(variant_.target).size() > 1;
    for_gradients = variant_.pass != "forward";
}

void VariantTest::TearDown() {
    for_device = false;
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

}  // namespace deformkit::testing
