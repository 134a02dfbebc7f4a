// How grad_value is divided: enough tasks of about equal size to keep 64 cores busy, and every sample and cell in one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <queue>

#include "blocks.h"
#include "levels.h"
#include "slabs.h"
#include "workloads.h"

namespace deformkit::testing {
namespace {

struct Plan {
    LevelTable levels;
    SlabProblem problem;
    ScratchVector<SlabGroup> groups;
};

Plan plan(const MsdaWorkload &w) {
    const auto num_levels = static_cast<int64_t>(w.levels.size()), samples = num_levels * w.points;
    Plan p;
    p.problem = {w.batch, w.heads, w.queries, samples, w.keys()};
    LevelTable &table = p.levels;
    table.columns = w.heads * samples;
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
    if (samples > 0 && w.heads > 0) {
        p.groups = plan_slabs(table, w.points, p.problem);
    }
    return p;
}

/// Work of each task in the order that they are handed out, in updates of a cell: four for a sample, and one to clear each cell
/// of the slab. For each group its batch items, parts and heads.
std::vector<int64_t> tasks_of(const Plan &p) {
    std::vector<int64_t> tasks;
    for (const SlabGroup &group : p.groups) {
        for (int64_t b = 0; b < p.problem.batches; b++) {
            for (int64_t part = 0; part < group.parts; part++) {
                const int64_t queries = p.problem.queries * (part + 1) / group.parts - p.problem.queries * part / group.parts;
                tasks.insert(tasks.end(), p.problem.heads, 4 * queries * group.num_samples + group.num_keys);
            }
        }
    }
    return tasks;
}

/// When the last task ends if each goes to the first core that is free.
int64_t makespan(const std::vector<int64_t> &tasks, int cores) {
    std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> free_at;
    for (int i = 0; i < cores; i++) {
        free_at.push(0);
    }
    int64_t last = 0;
    for (int64_t task : tasks) {
        const int64_t end = free_at.top() + task;
        free_at.pop();
        free_at.push(end);
        last = std::max(last, end);
    }
    return last;
}

/// Share of the time that cores work, all told.
double utilisation(const std::vector<int64_t> &tasks, int cores) {
    int64_t work = 0;
    for (int64_t task : tasks) {
        work += task;
    }
    return static_cast<double>(work) / static_cast<double>(cores * makespan(tasks, cores));
}

const MsdaWorkload &model(const std::string &name) {
    const auto &all = msda_model_workloads();
    return *std::find_if(all.begin(), all.end(), [&](const MsdaWorkload &w) { return w.name == name; });
}

TEST(Tasks, SixtyFourCoresAreBusyOnOneEncoder) {
    for (const char *name : {"detr_encoder", "detr_encoder_b2", "mask2former_1024", "detr_training_b4"}) {
        const std::vector<int64_t> tasks = tasks_of(plan(model(name)));
        EXPECT_GE(tasks.size(), 64u) << name;
        EXPECT_GT(utilisation(tasks, 64), name == std::string("detr_encoder") ? 0.9 : 0.7) << name;
        EXPECT_GT(utilisation(tasks, 16), 0.9) << name;
        EXPECT_GT(utilisation(tasks, 2), 0.95) << name;
        std::cout << name << ": " << tasks.size() << " tasks, 64 cores busy " << utilisation(tasks, 64) << ", 16 cores "
                  << utilisation(tasks, 16) << "\n";
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
            std::vector<int> samples(p.problem.samples, 0), cells(p.problem.keys, 0);
            for (const SlabGroup &group : p.groups) {
                EXPECT_GE(group.parts, 1);
                EXPECT_LE(group.parts, std::max<int64_t>(1, w.queries));
                for (int64_t s = 0; s < group.num_samples; s++) {
                    ASSERT_LT(group.first_sample + s, p.problem.samples) << w.name;
                    samples[group.first_sample + s]++;
                }
                for (int64_t k = 0; k < group.num_keys; k++) {
                    ASSERT_LT(group.first_key + k, p.problem.keys) << w.name;
                    cells[group.first_key + k]++;
                }
            }
            for (int64_t s = 0; s < p.problem.samples; s++) {
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
                    for (const Block &block : make_blocks(p.levels, p.problem.samples, w.queries, w.keys(), size)) {
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
    std::vector<int64_t> tasks;
    for (const Block &block : make_blocks(encoder.levels, encoder.problem.samples, 22223, 22223, 128)) {
        tasks.push_back(block.size());
    }
    EXPECT_GE(tasks.size(), 128u);
    EXPECT_GT(utilisation(tasks, 64), 0.75);
}

TEST(Tasks, LevelsThatShareCellsAreOneGroup) {
    Plan p = plan({"", 1, 1000, 2, 8, {{4, 4}, {2, 2}}, 4, Locations::kWide});
    ASSERT_EQ(p.groups.size(), 2u);
    for (int64_t f = 0; f < p.levels.columns; f++) {
        p.levels.rows[2 * p.levels.columns + f] = 0;
    }
    const auto shared = plan_slabs(p.levels, 4, p.problem);
    ASSERT_EQ(shared.size(), 1u);
    EXPECT_EQ(shared[0].num_samples, 8);
    EXPECT_EQ(shared[0].num_keys, p.problem.keys);
}

}  // namespace
}  // namespace deformkit::testing
