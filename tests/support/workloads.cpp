#include "workloads.h"

#include <algorithm>
#include <cmath>

namespace deformkit::testing {

namespace {

/// SplitMix64 (Steele, Lea, Flood 2014): a nanosecond a number, so that the inputs of the largest models take a second.
class Random {
public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next() {
        state_ += UINT64_C(0x9e3779b97f4a7c15);
        uint64_t z = state_;
        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
    }

    /// In [0, 1), a multiple of 2^-24.
    float uniform() { return static_cast<float>(next() >> 40) * 0x1p-24f; }

    /// Mean 0, variance 1: the sum of four uniform numbers is Gaussian enough here.
    float gaussian() {
        const uint64_t bits = next();
        const uint64_t sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
        return (static_cast<float>(sum) * 0x1p-16f - 2.0f) * 1.7320508f;
    }

private:
    uint64_t state_;
};

struct Point {
    float u, v;
};

/// Centre of the map's cell that query `q` stands for: in an encoder the queries are the cells of all levels, in their order.
Point place_of(int64_t q, const MsdaWorkload &w) {
    const int64_t keys = w.keys();
    int64_t cell = keys == 0 ? 0 : q * keys / w.queries;
    for (const Level &level : w.levels) {
        const int64_t cells = level.height * level.width;
        if (cell < cells) {
            return {(static_cast<float>(cell % level.width) + 0.5f) / static_cast<float>(level.width),
                    (static_cast<float>(cell / level.width) + 0.5f) / static_cast<float>(level.height)};
        }
        cell -= cells;
    }
    return {0.5f, 0.5f};
}

void fill_locations(const MsdaWorkload &w, Random &random, std::vector<float> &locations) {
    const auto num_levels = static_cast<int64_t>(w.levels.size());
    locations.resize(w.batch * w.queries * w.heads * num_levels * w.points * 2);
    float *to = locations.data();
    for (int64_t b = 0; b < w.batch; b++) {
        for (int64_t q = 0; q < w.queries; q++) {
            const Point place = place_of(q, w);
            const Point centre = {random.uniform(), random.uniform()};
            const Point size = {0.05f + 0.45f * random.uniform(), 0.05f + 0.45f * random.uniform()};
            for (int64_t m = 0; m < w.heads; m++) {
                for (const Level &level : w.levels) {
                    for (int64_t p = 0; p < w.points; p++) {
                        Point at = {};
                        switch (w.locations) {
                            case Locations::kNear:
                                at = {place.u + 2 * random.gaussian() / static_cast<float>(std::max<int64_t>(level.width, 1)),
                                      place.v + 2 * random.gaussian() / static_cast<float>(std::max<int64_t>(level.height, 1))};
                                break;
                            case Locations::kWide:
                                at = {random.uniform(), random.uniform()};
                                break;
                            case Locations::kBoxes:
                                at = {centre.u + size.u * (random.uniform() - 0.5f),
                                      centre.v + size.v * (random.uniform() - 0.5f)};
                                break;
                        }
                        *to++ = at.u;
                        *to++ = at.v;
                    }
                }
            }
        }
    }
}

/// Softmax over the samples of each query and head, as a model does.
void fill_weights(const MsdaWorkload &w, Random &random, std::vector<float> &weights) {
    const int64_t samples = static_cast<int64_t>(w.levels.size()) * w.points, rows = w.batch * w.queries * w.heads;
    weights.resize(rows * samples);
    for (int64_t row = 0; row < rows; row++) {
        float *to = weights.data() + row * samples;
        float sum = 0;
        for (int64_t s = 0; s < samples; s++) {
            to[s] = std::exp(random.gaussian());
            sum += to[s];
        }
        for (int64_t s = 0; s < samples; s++) {
            to[s] /= sum;
        }
    }
}

}  // namespace

int64_t MsdaWorkload::keys() const {
    int64_t sum = 0;
    for (const Level &level : levels) {
        sum += level.height * level.width;
    }
    return sum;
}

const std::vector<MsdaWorkload> &msda_model_workloads() {
    // Deformable DETR, DINO, GroundingDINO at 800 x 1333.
    static const std::vector<Level> detr = {{100, 167}, {50, 84}, {25, 42}, {13, 21}};
    static const std::vector<MsdaWorkload> workloads = {
        // name, B, Q, M, D, levels, P, locations
        {"detr_encoder", 1, 22223, 8, 32, detr, 4, Locations::kNear},
        {"detr_encoder_b2", 2, 22223, 8, 32, detr, 4, Locations::kNear},
        {"detr_decoder_boxes", 1, 900, 8, 32, detr, 4, Locations::kBoxes},
        {"detr_decoder_wide", 1, 900, 8, 32, detr, 4, Locations::kWide},
        {"detr_decoder_boxes_b4", 4, 900, 8, 32, detr, 4, Locations::kBoxes},
        {"detr_decoder_wide_b4", 4, 900, 8, 32, detr, 4, Locations::kWide},
        {"rtdetr_decoder", 1, 300, 8, 32, {{80, 80}, {40, 40}, {20, 20}}, 4, Locations::kBoxes},
        {"rfdetr_nano", 1, 300, 16, 16, {{24, 24}}, 2, Locations::kBoxes},
        {"mask2former_1024", 1, 21504, 8, 32, {{32, 32}, {64, 64}, {128, 128}}, 4, Locations::kNear},
        {"bevformer_tsa", 2, 40000, 8, 32, {{200, 200}}, 4, Locations::kNear},
        {"detr_training_b4", 4, 22223, 8, 32, detr, 4, Locations::kNear},
    };
    return workloads;
}

const std::vector<MsdaWorkload> &msda_awkward_workloads() {
    constexpr Locations near = Locations::kNear, wide = Locations::kWide, boxes = Locations::kBoxes;
    static const std::vector<MsdaWorkload> workloads = {
        // name, B, Q, M, D, levels, P, locations
        {"one_of_everything", 1, 1, 1, 1, {{1, 1}}, 1, wide},
        {"one_cell", 1, 5, 2, 8, {{1, 1}}, 4, wide},
        {"one_cell_per_level", 2, 3, 2, 4, {{1, 1}, {1, 1}, {1, 1}}, 2, wide},
        {"two_cells", 1, 5, 1, 4, {{1, 2}}, 3, wide},
        {"one_channel", 2, 9, 3, 1, {{5, 7}, {3, 4}}, 4, near},
        {"channels_2", 1, 9, 2, 2, {{6, 6}}, 3, boxes},
        {"channels_3", 2, 11, 2, 3, {{7, 5}, {4, 3}}, 4, near},
        {"channels_7", 1, 13, 3, 7, {{9, 11}, {5, 6}}, 4, near},
        {"channels_8", 1, 13, 2, 8, {{9, 11}, {5, 6}}, 4, boxes},
        {"channels_15", 1, 5, 3, 15, {{5, 4}, {3, 2}}, 4, wide},
        {"channels_16", 2, 13, 4, 16, {{9, 11}, {5, 6}}, 4, near},
        {"channels_17", 1, 5, 3, 17, {{5, 4}, {3, 2}}, 4, wide},
        {"channels_31", 1, 5, 3, 31, {{5, 4}, {3, 2}}, 4, wide},
        {"channels_32", 2, 13, 4, 32, {{9, 11}, {5, 6}}, 4, near},
        {"channels_33", 1, 5, 3, 33, {{5, 4}, {3, 2}}, 4, wide},
        {"channels_40", 1, 13, 3, 40, {{9, 11}, {5, 6}}, 4, near},
        {"channels_48", 1, 13, 2, 48, {{9, 11}, {5, 6}}, 4, near},
        {"channels_64", 1, 13, 2, 64, {{9, 11}, {5, 6}}, 4, near},
        {"channels_100", 1, 7, 2, 100, {{9, 11}, {5, 6}}, 4, near},
        {"channels_128", 1, 7, 2, 128, {{9, 11}}, 4, near},
        {"channels_257", 1, 3, 1, 257, {{6, 5}}, 2, boxes},
        {"row_map", 1, 9, 2, 16, {{1, 13}}, 4, wide},
        {"column_map", 1, 9, 2, 16, {{13, 1}}, 4, wide},
        {"rows_and_columns", 2, 9, 2, 32, {{1, 31}, {31, 1}, {1, 2}, {2, 1}}, 4, boxes},
        {"samples_4x4", 1, 33, 8, 32, {{12, 16}, {6, 8}, {3, 4}, {2, 2}}, 4, near},
        {"samples_3x4", 1, 33, 8, 32, {{12, 16}, {6, 8}, {3, 4}}, 4, boxes},
        {"samples_1x2", 1, 33, 16, 16, {{12, 16}}, 2, boxes},
        {"samples_4x8", 1, 17, 8, 32, {{12, 16}, {6, 8}, {3, 4}, {2, 2}}, 8, near},
        {"samples_1x1", 2, 17, 4, 32, {{12, 16}}, 1, wide},
        {"samples_5x3", 1, 17, 4, 24, {{12, 16}, {6, 8}, {3, 4}, {2, 2}, {1, 1}}, 3, wide},
        {"samples_2x7", 1, 17, 4, 16, {{12, 16}, {6, 8}}, 7, near},
        {"samples_10x10", 1, 3, 2, 8, std::vector<Level>(10, Level{3, 5}), 10, near},
        {"samples_1x257", 1, 2, 1, 16, {{12, 16}}, 257, wide},
        {"one_query", 1, 1, 8, 32, {{12, 16}, {6, 8}, {3, 4}, {2, 2}}, 4, boxes},
        {"seventeen_queries", 3, 17, 1, 32, {{12, 16}}, 4, boxes},
        {"three_heads", 2, 17, 3, 32, {{12, 16}, {6, 8}}, 4, near},
        {"many_batches", 19, 2, 2, 8, {{3, 4}}, 2, wide},
        {"small_level_first", 1, 21, 2, 16, {{2, 3}, {4, 6}, {8, 12}}, 4, near},
        {"empty_level_first", 1, 9, 2, 16, {{0, 0}, {4, 6}}, 4, wide},
        {"empty_level_between", 1, 9, 2, 16, {{4, 6}, {0, 5}, {3, 3}}, 4, wide},
        {"empty_level_last", 1, 9, 2, 16, {{4, 6}, {5, 0}}, 4, wide},
        {"no_batch", 0, 5, 2, 16, {{4, 6}}, 4, wide},
        {"no_queries", 2, 0, 2, 16, {{4, 6}}, 4, wide},
        {"no_keys", 2, 5, 2, 16, {{0, 0}, {0, 7}}, 4, wide},
        {"no_levels", 2, 5, 2, 16, {}, 4, wide},
        {"no_points", 2, 5, 2, 16, {{4, 6}, {2, 3}}, 0, wide},
        {"no_heads", 2, 5, 0, 16, {{4, 6}}, 4, wide},
        {"no_channels", 2, 5, 2, 0, {{4, 6}}, 4, wide},
    };
    return workloads;
}

MsdaInputs make_msda_inputs(const MsdaWorkload &workload, uint32_t seed) {
    Random random(seed);
    MsdaInputs inputs;
    inputs.value.resize(workload.batch * workload.keys() * workload.heads * workload.channels);
    for (float &value : inputs.value) {
        value = 2 * random.uniform() - 1;
    }
    fill_locations(workload, random, inputs.sampling_locations);
    fill_weights(workload, random, inputs.attention_weights);
    int64_t first_key = 0;
    for (const Level &level : workload.levels) {
        inputs.spatial_shapes.insert(inputs.spatial_shapes.end(), {level.height, level.width});
        inputs.level_start_index.push_back(first_key);
        first_key += level.height * level.width;
    }
    return inputs;
}

}  // namespace deformkit::testing
