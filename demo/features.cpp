#include "demo/features.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <new>

namespace demo {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr float kScales[3] = {0.8f, 1.6f, 3.2f};  // of the Gaussian derivatives, in cells
constexpr float kNeighbourhood = 1.6f;            // for contrast and structure, in cells

Plane map(const Plane &a, const Plane &b, const std::function<float(float, float)> &f) {
    Plane result(a.width, a.height);
    std::transform(a.pixels.begin(), a.pixels.end(), b.pixels.begin(), result.pixels.begin(), f);
    return result;
}

/// Gaussian; the border's pixels go on for ever outside.
Plane blur(const Plane &plane, float sigma) {
    const int radius = int(std::ceil(3 * sigma));
    std::vector<float> weights(2 * radius + 1);
    float total = 0;
    for (int k = -radius; k <= radius; k++) {
        total += weights[k + radius] = std::exp(-0.5f * float(k * k) / (sigma * sigma));
    }
    Plane across(plane.width, plane.height), result(plane.width, plane.height);
    for (int y = 0; y < plane.height; y++) {
        for (int x = 0; x < plane.width; x++) {
            for (int k = -radius; k <= radius; k++) {
                across.at(x, y) += weights[k + radius] / total * plane.at(std::clamp(x + k, 0, plane.width - 1), y);
            }
        }
    }
    for (int y = 0; y < plane.height; y++) {
        for (int k = -radius; k <= radius; k++) {
            for (int x = 0; x < plane.width; x++) {
                result.at(x, y) += weights[k + radius] / total * across.at(x, std::clamp(y + k, 0, plane.height - 1));
            }
        }
    }
    return result;
}

/// Central difference along (dx, dy), one of the two axes.
Plane derivative(const Plane &plane, int dx, int dy) {
    Plane result(plane.width, plane.height);
    for (int y = 0; y < plane.height; y++) {
        for (int x = 0; x < plane.width; x++) {
            const float after = plane.at(std::min(x + dx, plane.width - 1), std::min(y + dy, plane.height - 1));
            const float before = plane.at(std::max(x - dx, 0), std::max(y - dy, 0));
            result.at(x, y) = 0.5f * (after - before);
        }
    }
    return result;
}

/// Derivatives of a blurred plane, times the scale, so that they are of the same size at every scale.
struct Derivatives {
    Plane x, y, xx, xy, yy;

    Derivatives(const Plane &plane, float sigma) {
        const Plane smooth = blur(plane, sigma);
        x = derivative(smooth, 1, 0);
        y = derivative(smooth, 0, 1);
        xx = derivative(x, 1, 0);
        xy = derivative(x, 0, 1);
        yy = derivative(y, 0, 1);
        for (Plane *first : {&x, &y}) {
            std::for_each(first->pixels.begin(), first->pixels.end(), [=](float &v) { v *= 2 * sigma; });
        }
        for (Plane *second : {&xx, &xy, &yy}) {
            std::for_each(second->pixels.begin(), second->pixels.end(), [=](float &v) { v *= 4 * sigma * sigma; });
        }
    }
};

/// From the eigenvalues a >= b of the structure tensor: coherence (a - b) / (a + b), strength sqrt(a + b).
std::vector<Structure> structures(const Plane &luma) {
    const Plane gx = derivative(luma, 1, 0), gy = derivative(luma, 0, 1);
    const Plane xx = blur(map(gx, gx, std::multiplies<>()), kNeighbourhood);
    const Plane xy = blur(map(gx, gy, std::multiplies<>()), kNeighbourhood);
    const Plane yy = blur(map(gy, gy, std::multiplies<>()), kNeighbourhood);
    std::vector<Structure> result;
    for (size_t i = 0; i < xx.pixels.size(); i++) {
        const float trace = xx.pixels[i] + yy.pixels[i];
        const float difference = xx.pixels[i] - yy.pixels[i], twice_xy = 2 * xy.pixels[i];
        const float across = 0.5f * std::atan2(twice_xy, difference);  // the gradient's direction
        // Noise has no direction: what is far weaker than a visible edge counts as incoherent.
        const float coherence = std::hypot(difference, twice_xy) / (trace + 1e-4f);
        result.push_back({-std::sin(across), std::cos(across), coherence, std::min(4 * std::sqrt(trace), 1.0f)});
    }
    return result;
}

/// Writes the cells of one level to value[cell][head][channel].
void write_level(const Picture &level, const Plane &luma, float *value) {
    const int width = level.width(), height = level.height();
    std::vector<Plane> contrast;
    for (const Plane &colour : level.channel) {
        const Plane mean = blur(colour, kNeighbourhood);
        const Plane mean_square = blur(map(colour, colour, std::multiplies<>()), kNeighbourhood);
        contrast.push_back(map(mean, mean_square, [](float m, float s) { return 2 * std::sqrt(std::max(s - m * m, 0.0f)); }));
    }
    std::vector<Derivatives> scales;
    for (const float sigma : kScales) {
        scales.emplace_back(luma, sigma);
    }

    for (int i = 0; i < width * height; i++) {
        const float u = (float(i % width) + 0.5f) / float(width), v = (float(i / width) + 0.5f) / float(height);
        for (int head = 0; head < kHeads; head++) {
            const float c = float(std::cos(head_angle(head))), s = float(std::sin(head_angle(head)));
            float *out = value + (size_t(i) * kHeads + head) * kChannels;
            for (const Plane &colour : level.channel) {
                *out++ = colour.pixels[i];
            }
            for (const Plane &plane : contrast) {
                *out++ = plane.pixels[i];
            }
            for (const Derivatives &d : scales) {
                const float first = c * d.x.pixels[i] + s * d.y.pixels[i];
                *out++ = std::max(first, 0.0f);
                *out++ = std::max(-first, 0.0f);
            }
            for (const Derivatives &d : scales) {
                const float second = c * c * d.xx.pixels[i] + 2 * c * s * d.xy.pixels[i] + s * s * d.yy.pixels[i];
                *out++ = std::max(second, 0.0f);
                *out++ = std::max(-second, 0.0f);
            }
            for (const Derivatives &d : scales) {
                *out++ = std::abs(c * d.y.pixels[i] - s * d.x.pixels[i]);
                *out++ = std::hypot(d.x.pixels[i], d.y.pixels[i]);
            }
            for (const float position : {u, v}) {
                for (const float waves : {0.5f, 1.5f}) {
                    const float phase = 2 * float(kPi) * waves * position;
                    *out++ = 0.5f + 0.5f * std::sin(phase);
                    *out++ = 0.5f + 0.5f * std::cos(phase);
                }
            }
        }
    }
}

}  // namespace

Floats allocate_floats(size_t count) {
    const size_t bytes = (count * sizeof(float) + 63) / 64 * 64;
    void *memory = std::aligned_alloc(64, bytes);
    if (!memory) {
        throw std::bad_alloc();
    }
    return Floats(static_cast<float *>(memory));
}

double head_angle(int head) {
    return 2 * kPi * head / kHeads;
}

Features extract_features(const Picture &picture) {
    Features features;
    for (int l = 0; l < kLevels; l++) {
        features.level_shape.insert(features.level_shape.end(), {kLevelHeight[l], kLevelWidth[l]});
        features.level_start.push_back(features.keys);
        features.keys += int64_t(kLevelHeight[l]) * kLevelWidth[l];
    }
    features.value = allocate_floats(features.keys * kHeads * kChannels);
    for (int l = 0; l < kLevels; l++) {
        Picture level;
        for (int c = 0; c < 3; c++) {
            level.channel[c] = resize(picture.channel[c], kLevelWidth[l], kLevelHeight[l]);
        }
        Plane luma(kLevelWidth[l], kLevelHeight[l]);
        for (size_t i = 0; i < luma.pixels.size(); i++) {
            luma.pixels[i] =
                0.299f * level.channel[0].pixels[i] + 0.587f * level.channel[1].pixels[i] + 0.114f * level.channel[2].pixels[i];
        }
        write_level(level, luma, features.value.get() + features.level_start[l] * kHeads * kChannels);
        const std::vector<Structure> structure = structures(luma);
        features.structure.insert(features.structure.end(), structure.begin(), structure.end());
    }
    return features;
}

}  // namespace demo
