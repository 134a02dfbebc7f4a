// How grad_value is divided: enough tasks of about equal size to keep 64 cores busy, and every sample and cell in one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "runtime/cpu/blocks.h"
#include "runtime/cpu/levels.h"
#include "runtime/cpu/slabs.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {
namespace {

struct Plan {
    LevelTable levels;
    int64_t samples = 0, keys = 0;
    ScratchVector<SlabGroup> groups;
};

Plan plan(const MsdaWorkload &w) {
    const auto num_levels = static_cast<int64_t>(w.levels.size());
    Plan p;
    p.samples = num_levels * w.points, p.keys = w.keys();
    LevelTable &table = p.levels;
    table.columns = w.heads * p.samples;
    table.rows.resize(3 * table.columns);
    int64_t first_key = 0;
    for (int64_t l = 0; l < num_levels; l++) {
        for (int64_t f = 0; f < table.columns; f++) {
            if (f / w.points % num_levels == l) {
                table.rows[f] = static_cast<int32_t>(w.levels[l].width);
                table.rows[table.columns + f] = static_cast<int32_t>(w.levels[l].height);
                table.rows[2 * table.columns + f] = static_cast<int32_t>(first_key);
            }
        }
        first_key += w.levels[l].height * w.levels[l].width;
    }
    if (p.samples > 0 && w.heads > 0) {
        p.groups = plan_slabs(table, w.points, p.samples, p.keys);
    }
    return p;
}

/// Work of each task in the order that they are handed out, in updates of 16 channels of a cell: four corners of each sample,
/// one to clear each cell and one to store it; and for each sample as much as one and a half, to find its cells (on
/// detr_encoder a fifth of the time of a whole slab; Xeon, AVX-512).
std::vector<double> tasks_of(const MsdaWorkload &w, int64_t threads) {
    const Plan p = plan(w);
    const int64_t heads = w.batch * w.heads, slabs = heads * static_cast<int64_t>(p.groups.size());
    const int64_t channels = channels_of_slab(w.channels, slabs, threads);
    std::vector<double> tasks;
    for (const SlabGroup &group : p.groups) {
        for (int64_t i = 0; i < heads; i++) {
            for (int64_t first = 0; first < w.channels; first += channels) {
                const auto samples = static_cast<double>(w.queries * group.num_samples);
                const double vectors = std::ceil(static_cast<double>(std::min(channels, w.channels - first)) / 16);
                tasks.push_back(samples * 1.5 + vectors * (4 * samples + 2 * static_cast<double>(group.num_keys)));
            }
        }
    }
    return tasks;
}

/// When the last task ends if each goes to the first core that is free.
double makespan(const std::vector<double> &tasks, int cores) {
    std::priority_queue<double, std::vector<double>, std::greater<>> free_at;
    for (int i = 0; i < cores; i++) {
        free_at.push(0);
    }
    double last = 0;
    for (double task : tasks) {
        const double end = free_at.top() + task;
        free_at.pop();
        free_at.push(end);
        last = std::max(last, end);
    }
    return last;
}

double sum(const std::vector<double> &tasks) {
    return std::accumulate(tasks.begin(), tasks.end(), 0.0);
}

const MsdaWorkload &model(const std::string &name) {
    const auto &all = msda_model_workloads();
    return *std::find_if(all.begin(), all.end(), [&](const MsdaWorkload &w) { return w.name == name; });
}

/// Of the time of all cores, what is spent on tasks, and how much sooner all ends than on one core.
TEST(Tasks, SixtyFourCoresAreBusyOnOneEncoder) {
    // Two BEV grids of one level are 16 slabs, and 32 halves of slabs.
    for (const auto &[name, busy_of_64] : {std::pair("detr_encoder", 0.9),
                                           {"detr_encoder_b2", 0.9},
                                           {"mask2former_1024", 0.7},
                                           {"bevformer_tsa", 0.48},
                                           {"detr_training_b4", 0.9}}) {
        const double alone = sum(tasks_of(model(name), 1));
        for (const auto &[cores, busy, speedup] : {std::tuple(2, 0.95, 1.9), {16, 0.9, 13}, {64, busy_of_64, 24}}) {
            const std::vector<double> tasks = tasks_of(model(name), cores);
            const double end = makespan(tasks, cores);
            EXPECT_GT(sum(tasks) / (cores * end), busy) << name << ", " << cores << " cores";
            EXPECT_GT(alone / end, speedup) << name << ", " << cores << " cores";
            std::cout << name << ", " << cores << " cores: " << tasks.size() << " tasks, busy " << sum(tasks) / (cores * end)
                      << ", " << alone / end << " times as fast as one\n";
        }
    }
    EXPECT_EQ(tasks_of(model("detr_encoder"), 64).size(), 64u);
}

/// Channels of all parts make up a head's, in whole vectors but for the last.
TEST(Tasks, EveryChannelIsInOnePart) {
    for (int64_t channels : {1, 7, 16, 17, 32, 40, 64, 256}) {
        for (int64_t slabs : {0, 1, 8, 32, 1000}) {
            EXPECT_EQ(channels_of_slab(channels, slabs, 1), channels);
            for (int64_t threads : {2, 7, 64, 1000}) {
                const int64_t part = channels_of_slab(channels, slabs, threads);
                EXPECT_TRUE(part == channels || (part > 0 && part < channels && part % 16 == 0))
                    << channels << " channels in parts of " << part;
            }
        }
    }
}

/// Whatever is divided, all of it is done, once.
TEST(Tasks, EverySampleAndCellIsInOneGroup) {
    for (const auto *table : {&msda_model_workloads(), &msda_awkward_workloads()}) {
        for (const MsdaWorkload &w : *table) {
            const Plan p = plan(w);
            if (p.levels.columns == 0) {
                continue;
            }
            std::vector<int> samples(p.samples, 0), cells(p.keys, 0);
            for (const SlabGroup &group : p.groups) {
                for (int64_t s = 0; s < group.num_samples; s++) {
                    ASSERT_LT(group.first_sample + s, p.samples) << w.name;
                    samples[group.first_sample + s]++;
                }
                for (int64_t k = 0; k < group.num_keys; k++) {
                    ASSERT_LT(group.first_key + k, p.keys) << w.name;
                    cells[group.first_key + k]++;
                }
            }
            for (int64_t s = 0; s < p.samples; s++) {
                const Level &level = w.levels[s / w.points];
                EXPECT_EQ(samples[s], level.height * level.width > 0) << w.name << ", sample " << s;
            }
            EXPECT_TRUE(std::all_of(cells.begin(), cells.end(), [](int n) { return n == 1; })) << w.name;
        }
    }
}

/// The gradients of samples: as many blocks of queries as it takes, each query in one of them.
TEST(Tasks, EveryQueryIsInOneBlock) {
    for (const auto *table : {&msda_model_workloads(), &msda_awkward_workloads()}) {
        for (MsdaWorkload w : *table) {
            for (const bool as_encoder : {false, true}) {
                w.queries = as_encoder ? w.keys() : w.queries;
                const Plan p = plan(w);
                if (p.levels.columns == 0) {
                    continue;
                }
                for (int64_t size : {1, 7, 64, 128}) {
                    SCOPED_TRACE(::testing::Message() << w.name << ", Q = " << w.queries << ", blocks of " << size);
                    std::vector<int> queries(w.queries, 0), packed(w.queries, 0);
                    for (const Block &block : make_blocks(p.levels, p.samples, w.queries, w.keys(), size)) {
                        EXPECT_GT(block.size(), 0);
                        EXPECT_LE(block.size(), 2 * size);
                        for (int64_t i = 0; i < block.size(); i++) {
                            const int64_t query = block.first + i % block.width + block.pitch * (i / block.width);
                            ASSERT_TRUE(query >= 0 && query < w.queries && block.packed + i < w.queries);
                            queries[query]++;
                            packed[block.packed + i]++;
                        }
                    }
                    const auto once = [](int n) { return n == 1; };
                    EXPECT_TRUE(std::all_of(queries.begin(), queries.end(), once));
                    EXPECT_TRUE(std::all_of(packed.begin(), packed.end(), once));
                }
            }
        }
    }
    const Plan encoder = plan(model("detr_encoder"));
    std::vector<double> tasks;
    for (const Block &block : make_blocks(encoder.levels, encoder.samples, 22223, 22223, 128)) {
        tasks.push_back(static_cast<double>(block.size()));
    }
    EXPECT_GE(tasks.size(), 128u);
    EXPECT_GT(sum(tasks) / (64 * makespan(tasks, 64)), 0.75);
}

TEST(Tasks, LevelsThatShareCellsAreOneGroup) {
    Plan p = plan({"", 1, 1000, 2, 8, {{4, 4}, {2, 2}}, 4, Locations::kWide});
    ASSERT_EQ(p.groups.size(), 2u);
    for (int64_t f = 0; f < p.levels.columns; f++) {
        p.levels.rows[2 * p.levels.columns + f] = 0;
    }
    const auto shared = plan_slabs(p.levels, 4, p.samples, p.keys);
    ASSERT_EQ(shared.size(), 1u);
    EXPECT_EQ(shared[0].num_samples, 8);
    EXPECT_EQ(shared[0].num_keys, p.keys);
}

}  // namespace
}  // namespace deformkit::testing
