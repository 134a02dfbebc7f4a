#include "demo/queries.h"

#include <algorithm>
#include <cmath>

namespace demo {

namespace {

constexpr float kTemperature = 0.13f;  // of the softmax, in squared feature units

/// Key of the cell that holds a location; of the nearest one for a location off the picture.
int64_t key_at(const Features &features, int level, float u, float v) {
    const int width = kLevelWidth[level], height = kLevelHeight[level];
    const int column = std::clamp(int(std::floor(u * float(width))), 0, width - 1);
    const int row = std::clamp(int(std::floor(v * float(height))), 0, height - 1);
    return features.level_start[level] + int64_t(row) * width + column;
}

float squared_distance(const float *a, const float *b) {
    float sum = 0;
    for (int i = 0; i < kChannels; i++) {
        sum += (a[i] - b[i]) * (a[i] - b[i]);
    }
    return sum;
}

}  // namespace

Queries make_queries(const Features &features) {
    constexpr int kSamples = kLevels * kPoints;
    Queries queries;
    queries.count = features.keys;
    queries.locations = allocate_floats(features.keys * kHeads * kSamples * 2);
    queries.weights = allocate_floats(features.keys * kHeads * kSamples);
    float *location = queries.locations.get(), *weight = queries.weights.get();

    for (int home = 0; home < kLevels; home++) {
        for (int i = 0; i < kLevelWidth[home] * kLevelHeight[home]; i++) {
            const int64_t query = features.level_start[home] + i;
            const float u = (float(i % kLevelWidth[home]) + 0.5f) / float(kLevelWidth[home]);
            const float v = (float(i / kLevelWidth[home]) + 0.5f) / float(kLevelHeight[home]);
            const Structure &structure = features.structure[query];
            const float reach = 1.5f - 0.5f * structure.strength;
            const float along = reach * (1 + 0.8f * structure.coherence), across = reach * (1 - 0.6f * structure.coherence);

            for (int head = 0; head < kHeads; head++) {
                const float c = float(std::cos(head_angle(head))), s = float(std::sin(head_angle(head)));
                const float tx = structure.tangent_x, ty = structure.tangent_y;
                const float on_tangent = along * (c * tx + s * ty), on_normal = across * (s * tx - c * ty);
                const float dx = on_tangent * tx - on_normal * ty, dy = on_tangent * ty + on_normal * tx;

                float total = 0;
                for (int l = 0; l < kLevels; l++) {
                    for (int p = 0; p < kPoints; p++) {
                        const float x = u + float(p + 1) * dx / float(kLevelWidth[l]);
                        const float y = v + float(p + 1) * dy / float(kLevelHeight[l]);
                        *location++ = x;
                        *location++ = y;
                        const float distance =
                            squared_distance(features.cell(query, head), features.cell(key_at(features, l, x, y), head));
                        const bool on_picture = x > 0 && x < 1 && y > 0 && y < 1;
                        total += weight[l * kPoints + p] = on_picture ? std::exp(-distance / (2 * kTemperature)) : 0;
                    }
                }
                for (int k = 0; k < kSamples; k++) {
                    weight[k] = total > 0 ? weight[k] / total : 1.0f / kSamples;
                }
                weight += kSamples;
            }
        }
    }
    return queries;
}

}  // namespace demo
