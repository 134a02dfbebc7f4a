// Files that set knobs change kernels and plans. This program has kernels and a dispatch table of its own, with the knobs of
// tests/tuned, as have programs of other subjects, which show that results stay right to within rounding.
#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "runtime/dispatch/dispatch.h"
#include "runtime/interface/error.h"
#include "schedules/msda_knobs.h"
#include "tests/support/guarded.h"

namespace deformkit::testing {
namespace {

std::string contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), {}};
}

/// What tests/tuned sets for a variant or the library; nothing where it has no file.
std::map<std::string, int64_t> params_of(const std::string &owner) {
    std::map<std::string, int64_t> params;
    std::ifstream file(DEFORMKIT_TUNED_DIR "/" + owner + ".params");
    for (std::string line; std::getline(file, line);) {
        if (const size_t equals = line.find('='); line[0] != '#' && equals != std::string::npos) {
            params[line.substr(0, equals)] = std::stoll(line.substr(equals + 1));
        }
    }
    return params;
}

TEST(Knobs, HostKnobsAreInTheTable) {
    int seen = 0;
    for (const HostKnobs &host : all_host_knobs()) {
        const auto params = params_of(host.owner);
        for (size_t i = 0; i < host.count; i++) {
            const auto set = params.find(host.knobs[i].name);
            ASSERT_NE(set, params.end()) << host.owner << ": " << host.knobs[i].name;
            EXPECT_EQ(host.at(host.values, i), set->second) << host.owner << ": " << set->first;
            EXPECT_NE(set->second, host.knobs[i].standard) << host.owner << ": " << set->first;
            seen++;
        }
    }
    EXPECT_GT(seen, 20);
}

TEST(Knobs, ScheduleKnobsChangeKernelsAndNothingElseDoes) {
    int changed = 0;
    for (const deformkit::Variant &variant : deformkit::all_variants()) {
        const auto params = params_of(variant.name);
        const bool tuned = params.size() > variant.host_knobs.count;
        const bool differs = contents(std::string(DEFORMKIT_KERNELS_DIR "/") + variant.name + ".o") !=
                             contents(std::string(DEFORMKIT_TUNED_KERNELS_DIR "/tuned_") + variant.name + ".o");
        EXPECT_EQ(differs, tuned) << variant.name;
        changed += tuned ? 1 : 0;
    }
    EXPECT_GT(changed, 0);
    const std::string control = "convert_narrow_f16_sse41.o";
    EXPECT_EQ(contents(DEFORMKIT_KERNELS_DIR "/" + control), contents(DEFORMKIT_TUNED_KERNELS_DIR "/tuned_" + control))
        << "with default knobs, it is the same kernel";
}

/// Four cells, one query with four samples: four reads a cell.
deformkit_status call() {
    GuardedTensor value(dtype_of<float>(), {1, 4, 1, 1}), shapes(dtype_of<int32_t>(), {1, 2});
    GuardedTensor starts(dtype_of<int32_t>(), {1});
    GuardedTensor locations(dtype_of<float>(), {1, 1, 1, 1, 4, 2}), weights(dtype_of<float>(), {1, 1, 1, 1, 4});
    GuardedTensor output(dtype_of<float>(), {1, 1, 1});
    value.store_numbers({1, 2, 3, 4});
    shapes.store<int32_t>({2, 2});
    starts.store<int32_t>({0});
    locations.store_numbers({0.25, 0.25, 0.75, 0.25, 0.25, 0.75, 0.75, 0.75});
    weights.store_numbers({1, 10, 100, 1000});
    const deformkit_status status =
        deformkit_msda_forward(value.dl(), shapes.dl(), starts.dl(), locations.dl(), weights.dl(), output.dl());
    EXPECT_EQ(status, DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_EQ(output.load_numbers()[0], 4321);
    return status;
}

const deformkit::Variant &msda_forward() {
    return choose_variant("msda_forward", {kDLFloat, 32, 1});
}

TEST(Knobs, PlansFollowHostKnobs) {
    const std::string row = msda_forward().name, head_major = companion(msda_forward(), "msda_forward_head_major")->name;
    call();
    EXPECT_EQ(deformkit_last_variant(), head_major) << "four reads are often, says tests/tuned";
    const int64_t tuned = params_of(msda_forward().name).at("head_major_reads");
    set_host_knob(msda_forward().host_knobs, "head_major_reads", tuned + 1);
    call();
    EXPECT_EQ(deformkit_last_variant(), row);
    set_host_knob(msda_forward().host_knobs, "head_major_reads", tuned);

    EXPECT_THROW(set_host_knob(msda_forward().host_knobs, "head_major_reads", -1), Failure);
    EXPECT_THROW(set_host_knob(msda_forward().host_knobs, "head_major_read", 1), Failure);
    EXPECT_THROW(host_knobs<MsdaBackwardValueHostKnobs>(msda_forward()), std::logic_error);
    EXPECT_EQ(host_knobs<MsdaForwardHostKnobs>(msda_forward()).head_major_reads, tuned);
}

TEST(Knobs, KernelsAreForcedByName) {
    for (const std::string name : {msda_forward().name, companion(msda_forward(), "msda_forward_head_major")->name}) {
        force_kernel(name.c_str());
        call();
        EXPECT_EQ(deformkit_last_variant(), name);
    }
    force_kernel(nullptr);
    EXPECT_THROW(force_kernel("msda_forward"), Failure);
}

}  // namespace
}  // namespace deformkit::testing
