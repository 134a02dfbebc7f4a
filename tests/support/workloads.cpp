#include "tests/support/workloads.h"

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

int64_t DaWorkload::cells() const {
    int64_t sum = 0;
    for (const Level &scale : scales) {
        sum += scale.height * scale.width;
    }
    return sum * cameras;
}

const std::vector<DaWorkload> &da_model_workloads() {
    static const std::vector<Level> sparse4d = {{64, 176}, {32, 88}, {16, 44}, {8, 22}};  // images of 256 x 704
    static const std::vector<DaWorkload> workloads = {
        // name, B, anchors, points, cameras, scales, groups, channels of a group, visible
        {"sparse4d_v3", 1, 900, 13, 6, sparse4d, 8, 32, 1.0 / 6},
        {"sparse4d_v3_b6", 6, 900, 13, 6, sparse4d, 8, 32, 1.0 / 6},
        {"da_example", 1, 10, 2000, 1, {{32, 88}}, 8, 32, 1.0},
    };
    return workloads;
}

const std::vector<DaWorkload> &da_awkward_workloads() {
    static const std::vector<DaWorkload> workloads = {
        // name, B, anchors, points, cameras, scales, groups, channels of a group, visible
        {"one_of_everything", 1, 1, 1, 1, {{1, 1}}, 1, 1, 1},
        {"one_cell", 1, 5, 3, 2, {{1, 1}}, 2, 16, 1},
        {"row_and_column", 2, 5, 4, 2, {{1, 9}, {9, 1}, {1, 2}, {2, 1}}, 2, 16, 0.8},
        {"published_1_32_8", 1, 10, 10, 1, {{32, 88}}, 8, 4, 1},
        {"published_5_64_16", 5, 13, 50, 1, {{32, 88}}, 16, 4, 1},
        {"published_10_64_8", 10, 18, 31, 1, {{32, 88}}, 8, 8, 1},
        {"published_1_32_16", 1, 13, 31, 1, {{32, 88}}, 16, 2, 0.9},
        {"groups_16_of_16", 1, 7, 13, 3, {{9, 11}, {5, 6}}, 16, 16, 0.4},
        {"groups_8_of_32", 2, 7, 13, 6, {{9, 11}, {5, 6}, {3, 3}, {2, 2}}, 8, 32, 0.3},
        {"groups_2_of_32", 1, 7, 5, 2, {{9, 11}}, 2, 32, 0.5},
        {"groups_4_of_64", 1, 5, 5, 2, {{9, 11}, {4, 4}}, 4, 64, 0.5},
        {"groups_3_of_48", 1, 5, 5, 2, {{9, 11}, {4, 4}}, 3, 48, 0.5},
        {"groups_5_of_7", 2, 5, 9, 3, {{9, 11}, {4, 4}}, 5, 7, 0.5},
        {"groups_1_of_100", 1, 5, 9, 2, {{9, 11}}, 1, 100, 0.5},
        {"groups_64_of_1", 1, 5, 9, 2, {{9, 11}}, 64, 1, 0.5},
        {"points_17", 1, 33, 17, 2, {{9, 11}, {4, 4}}, 4, 16, 0.6},
        {"points_shared_out", 1, 3, 1201, 2, {{9, 11}, {4, 4}}, 4, 16, 0.5},
        {"points_shared_out_of_30", 1, 30, 600, 1, {{9, 11}}, 2, 16, 0.9},
        {"points_shared_out_evenly", 2, 2, 2048, 1, {{9, 11}}, 2, 32, 0.9},
        {"nothing_visible", 1, 5, 9, 2, {{9, 11}}, 2, 16, 0},
        {"empty_map", 1, 5, 9, 2, {{9, 11}, {0, 5}, {3, 3}}, 2, 16, 0.9},
        {"many_batches", 19, 2, 3, 2, {{3, 4}}, 2, 16, 0.7},
        {"no_batch", 0, 5, 9, 2, {{9, 11}}, 2, 16, 0.5},
        {"no_anchors", 2, 0, 9, 2, {{9, 11}}, 2, 16, 0.5},
        {"no_points", 2, 5, 0, 2, {{9, 11}}, 2, 16, 0.5},
        {"no_cameras", 2, 5, 9, 0, {{9, 11}}, 2, 16, 0.5},
        {"no_scales", 2, 5, 9, 2, {}, 2, 16, 0.5},
        {"no_channels", 2, 5, 9, 2, {{9, 11}}, 2, 0, 0.5},
    };
    return workloads;
}

DaInputs make_da_inputs(const DaWorkload &w, uint32_t seed) {
    Random random(seed);
    DaInputs inputs;
    inputs.feature_maps.resize(w.batch * w.cells() * w.groups * w.channels);
    for (float &value : inputs.feature_maps) {
        value = 2 * random.uniform() - 1;
    }
    // An anchor is a box somewhere; each camera sees a point of it or not.
    const int64_t rows = w.batch * w.anchors, samples = w.points * w.cameras;
    for (int64_t row = 0; row < rows; row++) {
        const Point centre = {random.uniform(), random.uniform()};
        const float size = 0.05f + 0.45f * random.uniform();
        for (int64_t i = 0; i < samples; i++) {
            float u = centre.u + size * (random.uniform() - 0.5f), v = centre.v + size * (random.uniform() - 0.5f);
            u = std::clamp(u, 0.01f, 0.99f);
            v = std::clamp(v, 0.01f, 0.99f);
            if (random.uniform() >= static_cast<float>(w.visible)) {
                (random.next() % 2 == 0 ? u : v) += random.next() % 2 == 0 ? 1.5f : -1.5f;
            }
            inputs.sample_locations.insert(inputs.sample_locations.end(), {u, v});
        }
    }
    const auto scales = static_cast<int64_t>(w.scales.size());
    inputs.weights.resize(rows * samples * scales * w.groups);
    for (float &weight : inputs.weights) {
        weight = 2 * random.uniform() / static_cast<float>(std::max<int64_t>(samples * scales, 1));
    }
    int64_t first = 0;
    for (int64_t n = 0; n < w.cameras; n++) {
        for (const Level &scale : w.scales) {
            inputs.spatial_shape.insert(inputs.spatial_shape.end(), {scale.height, scale.width});
            inputs.scale_start_index.push_back(first);
            first += scale.height * scale.width;
        }
    }
    return inputs;
}

const std::vector<MsdaWorkload> &gka_model_workloads() {
    static const std::vector<MsdaWorkload> workloads = {
        {"gka_example", 6, 9680, 8, 32, std::vector<Level>(4, Level{60, 40}), 4, Locations::kWide},
        {"mapping_decoder", 1, 1000, 8, 32, {{200, 100}}, 8, Locations::kNear},
    };
    return workloads;
}

MsdaInputs make_gka_inputs(const MsdaWorkload &workload, uint32_t seed) {
    MsdaInputs inputs = make_msda_inputs(workload, seed);
    const auto levels = static_cast<int64_t>(workload.levels.size());
    for (size_t i = 0; i < inputs.sampling_locations.size(); i++) {
        const Level &level = workload.levels[static_cast<int64_t>(i) / 2 / workload.points % levels];
        const auto extent = static_cast<float>(i % 2 == 0 ? level.width : level.height);
        inputs.sampling_locations[i] = inputs.sampling_locations[i] * (extent + 2) - 1;
    }
    return inputs;
}

std::vector<float> uniform_numbers(int64_t count, uint32_t seed) {
    Random random(seed);
    std::vector<float> numbers(count);
    for (float &number : numbers) {
        number = 2 * random.uniform() - 1;
    }
    return numbers;
}

}  // namespace deformkit::testing
