// A feature pyramid from a picture, in the place of a convolutional backbone: fixed filters, nothing learnt, nothing random.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "demo/picture.h"

namespace demo {

constexpr int kHeads = 8, kChannels = 32, kLevels = 4, kPoints = 4;

/// The input size and strides of Deformable DETR: strides 8, 16, 32 and 64 over 800 x 1333 pixels.
constexpr int kInputHeight = 800, kInputWidth = 1333;
constexpr int kLevelHeight[kLevels] = {100, 50, 25, 13}, kLevelWidth[kLevels] = {167, 84, 42, 21};

struct Free {
    void operator()(void *memory) const { std::free(memory); }
};
/// Aligned to a cache line, which spares the kernels loads that straddle two.
using Floats = std::unique_ptr<float[], Free>;
Floats allocate_floats(size_t count);

/// The direction that a head looks in, in radians: eight points of the compass.
double head_angle(int head);

/// What the picture does around one cell, from its structure tensor.
struct Structure {
    float tangent_x, tangent_y;  ///< unit vector along the edge
    float coherence;             ///< 0: no direction prevails; 1: a straight edge
    float strength;              ///< of the edge, 0 to 1
};

struct Features {
    int64_t keys = 0;                  ///< cells of all levels
    std::vector<int64_t> level_shape;  ///< [L, 2], (H, W)
    std::vector<int64_t> level_start;  ///< [L]
    Floats value;                      ///< [keys, kHeads, kChannels], about 0 to 1
    std::vector<Structure> structure;  ///< [keys]

    const float *cell(int64_t key, int head) const { return value.get() + (key * kHeads + head) * kChannels; }
};

/// The channels of head m, whose filters are steered to head_angle(m):
///   0-2    colour
///   3-5    contrast: standard deviation of each colour nearby
///   6-11   first derivative along the head's direction at three scales, rising and falling edges apart
///   12-17  second derivative likewise: bright and dark lines across the head's direction
///   18-23  derivative across the head's direction, and the gradient's length, at three scales
///   24-31  position: sines and cosines of x and y
Features extract_features(const Picture &picture);

}  // namespace demo
