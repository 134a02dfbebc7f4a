// The inputs are what the tables promise.
#include "tests/support/workloads.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace deformkit::testing {
namespace {

TEST(Workloads, NamesAreDistinct) {
    std::set<std::string> names;
    for (const auto *table : {&msda_model_workloads(), &msda_awkward_workloads()}) {
        for (const MsdaWorkload &workload : *table) {
            EXPECT_TRUE(names.insert(workload.name).second) << workload.name;
        }
    }
}

TEST(Workloads, QueriesOfEncodersAreCells) {
    for (const MsdaWorkload &workload : msda_model_workloads()) {
        if (workload.locations == Locations::kNear) {
            EXPECT_EQ(workload.queries, workload.keys()) << workload.name;
        }
    }
}

TEST(Workloads, InputsAreReproducibleAndPlausible) {
    for (Locations locations : {Locations::kNear, Locations::kWide, Locations::kBoxes}) {
        const MsdaWorkload workload = {"", 2, 300, 4, 8, {{20, 30}, {10, 15}}, 4, locations};
        const MsdaInputs in = make_msda_inputs(workload, 3);
        ASSERT_EQ(in.value.size(), 2u * 750 * 4 * 8);
        ASSERT_EQ(in.sampling_locations.size(), 2u * 300 * 4 * 2 * 4 * 2);
        ASSERT_EQ(in.attention_weights.size(), 2u * 300 * 4 * 2 * 4);
        EXPECT_EQ(in.spatial_shapes, (std::vector<int64_t>{20, 30, 10, 15}));
        EXPECT_EQ(in.level_start_index, (std::vector<int64_t>{0, 600}));
        EXPECT_EQ(in.value, make_msda_inputs(workload, 3).value);
        EXPECT_NE(in.value, make_msda_inputs(workload, 4).value);

        size_t inside = 0;
        for (float u : in.sampling_locations) {
            inside += u > 0 && u < 1;
        }
        EXPECT_GT(inside, in.sampling_locations.size() * 3 / 4);
        for (size_t row = 0; row < in.attention_weights.size(); row += 8) {
            float sum = 0;
            for (size_t s = row; s < row + 8; s++) {
                EXPECT_GT(in.attention_weights[s], 0);
                sum += in.attention_weights[s];
            }
            EXPECT_NEAR(sum, 1, 1e-6);
        }
    }
}

TEST(Workloads, NearLocationsAreTwoCellsAway) {
    const MsdaWorkload workload = {"", 1, 600, 4, 1, {{20, 30}}, 16, Locations::kNear};
    const MsdaInputs in = make_msda_inputs(workload, 1);
    double sum = 0, squares = 0;
    const size_t per_query = 4 * 16;
    for (size_t i = 0; i < in.sampling_locations.size(); i += 2) {
        const double off = in.sampling_locations[i] * 30 - (static_cast<double>(i / 2 / per_query % 30) + 0.5);
        sum += off;
        squares += off * off;
    }
    const double n = static_cast<double>(in.sampling_locations.size()) / 2;
    EXPECT_NEAR(sum / n, 0, 0.05);
    EXPECT_NEAR(std::sqrt(squares / n), 2, 0.05);
}

}  // namespace
}  // namespace deformkit::testing
