// How the work of a call is divided: all of it is done, once, by tasks that threads can share.
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cpu/blocks.h"
#include "runtime/cpu/levels.h"
#include "runtime/cpu/slabs.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {
namespace {

/// What a plan divides: levels beside each other, blocks of about so many queries.
class Division {
public:
    explicit Division(const MsdaWorkload &w, int64_t block = 1)
        : samples_(static_cast<int64_t>(w.levels.size()) * w.points),
          table_(reserve_levels(memory_, w.heads * samples_)),
          blocks(memory_, samples_, block),
          groups(memory_, static_cast<int64_t>(w.levels.size())) {
        memory_.open();
        int64_t first_key = 0;
        levels = make_level_table(
            table_, static_cast<int64_t>(w.levels.size()),
            [&](int64_t l) {
                const deformkit::Level level = {w.levels[l].height, w.levels[l].width, first_key};
                first_key += level.height * level.width;
                return level;
            },
            w.heads, w.points, w.keys());
        divide(w);
    }
    void divide(const MsdaWorkload &w) {
        blocks.make(levels, samples_, w.queries, w.keys());
        groups.make(levels, samples_, w.points, w.keys());
    }

private:
    CallMemory memory_;
    int64_t samples_;
    CallArray<int32_t> table_;

public:
    Blocks blocks;
    MapGroups groups;
    LevelTable levels;
};

template <typename Check>
void for_all_workloads(Check &&check) {
    for (const auto *table : {&msda_model_workloads(), &msda_awkward_workloads()}) {
        for (const MsdaWorkload &w : *table) {
            if (w.heads > 0 && w.points > 0 && !w.levels.empty()) {
                SCOPED_TRACE(w.name);
                check(w);
            }
        }
    }
}

const MsdaWorkload &model(const std::string &name) {
    const auto &all = msda_model_workloads();
    return *std::find_if(all.begin(), all.end(), [&](const MsdaWorkload &w) { return w.name == name; });
}

bool all_once(const std::vector<int> &counts) {
    return std::all_of(counts.begin(), counts.end(), [](int n) { return n == 1; });
}

/// Channels of all parts make up a head's, in whole vectors but for the last.
TEST(Division, EveryChannelIsInOnePart) {
    for (const int64_t channels : {1, 7, 16, 17, 32, 40, 64, 256}) {
        for (const int64_t slabs : {0, 1, 8, 32, 1000}) {
            EXPECT_EQ(channels_of_slab(channels, slabs, 1, {3, 8}), channels);
            for (const int64_t threads : {2, 7, 64, 1000}) {
                const int64_t part = channels_of_slab(channels, slabs, threads, {3, 8});
                EXPECT_TRUE(part == channels || (part > 0 && part < channels && part % 16 == 0))
                    << channels << " channels in parts of " << part;
            }
        }
    }
    // Four slabs for each of 8 heads of an encoder: halves of them keep 64 cores busy.
    EXPECT_EQ(channels_of_slab(32, 32, 64, {3, 8}), 16);
    EXPECT_EQ(channels_of_slab(32, 32, 2, {3, 8}), 32);
}

TEST(Division, EveryMapAndCellIsInOneGroup) {
    for_all_workloads([](const MsdaWorkload &w) {
        const Division d(w);
        std::vector<int> maps(w.levels.size(), 0), cells(w.keys(), 0);
        for (const MapGroup &group : d.groups) {
            for (const int64_t map : group) {
                ASSERT_LT(map, static_cast<int64_t>(maps.size()));
                maps[map]++;
            }
            for (int64_t k = 0; k < group.keys.count; k++) {
                ASSERT_LT(group.keys.first + k, w.keys());
                cells[group.keys.first + k]++;
            }
        }
        for (size_t l = 0; l < maps.size(); l++) {
            EXPECT_EQ(maps[l], w.levels[l].height * w.levels[l].width > 0) << "level " << l;
        }
        EXPECT_TRUE(all_once(cells));
    });
}

TEST(Division, EveryQueryIsInOneBlock) {
    for_all_workloads([](MsdaWorkload w) {
        for (const bool as_encoder : {false, true}) {
            w.queries = as_encoder ? w.keys() : w.queries;
            for (const int64_t size : {1, 7, 64, 128}) {
                SCOPED_TRACE(::testing::Message() << "Q = " << w.queries << ", blocks of " << size);
                const Division d(w, size);
                std::vector<int> queries(w.queries, 0), packed(w.queries, 0);
                for (int64_t i = 0; i < d.blocks.count(); i++) {
                    const Block block = d.blocks[i];
                    EXPECT_GT(block.size(), 0);
                    EXPECT_LE(block.size(), 2 * size);
                    for (int64_t j = 0; j < block.size(); j++) {
                        const int64_t query = block.first + j % block.width + block.pitch * (j / block.width);
                        ASSERT_TRUE(query >= 0 && query < w.queries && block.packed + j < w.queries);
                        queries[query]++;
                        packed[block.packed + j]++;
                    }
                }
                EXPECT_TRUE(all_once(queries));
                EXPECT_TRUE(all_once(packed));
            }
        }
    });
}

/// Enough blocks of an encoder for 64 cores, most of them whole.
TEST(Division, BlocksAreForManyCores) {
    MsdaWorkload encoder = model("detr_encoder");
    const Division d(encoder, 128);
    EXPECT_GE(d.blocks.count(), 128);
    EXPECT_GE(encoder.queries * 4, d.blocks.count() * 128 * 3);
}

TEST(Division, LevelsThatShareCellsAreOneGroup) {
    const MsdaWorkload w = {"", 1, 1000, 2, 8, {{4, 4}, {2, 2}, {1, 3}}, 4, Locations::kWide};
    Division d(w);
    ASSERT_EQ(d.groups.count(), 3);
    for (int64_t f = 0; f < d.levels.columns; f++) {
        d.levels.first_key(f) = f / w.points % 3 == 1 ? 14 : d.levels.first_key(f);
    }
    d.divide(w);
    ASSERT_EQ(d.groups.count(), 2);
    EXPECT_EQ(d.groups[0].size(), 2);
    EXPECT_EQ(d.groups[0].keys.count, 18);
    EXPECT_EQ(d.groups[1].keys.first, 20);
    d.levels.check_cells = true;
    d.divide(w);
    ASSERT_EQ(d.groups.count(), 1);
    EXPECT_EQ(d.groups[0].size(), 3);
    EXPECT_EQ(d.groups[0].keys.count, w.keys());
}

}  // namespace
}  // namespace deformkit::testing
