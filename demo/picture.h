// Pictures: reading, resizing, writing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace demo {

/// One number per pixel, row by row.
struct Plane {
    int width = 0, height = 0;
    std::vector<float> pixels;

    Plane() = default;
    Plane(int width, int height, float fill = 0) : width(width), height(height), pixels(size_t(width) * height, fill) {}

    float &at(int x, int y) { return pixels[size_t(y) * width + x]; }
    const float &at(int x, int y) const { return pixels[size_t(y) * width + x]; }
};

/// Red, green and blue in [0, 1], as stored in the file (sRGB).
struct Picture {
    Plane channel[3];

    int width() const { return channel[0].width; }
    int height() const { return channel[0].height; }
};

/// Throws std::runtime_error with a message for people when the file is missing, no picture, or under 64 pixels a side.
Picture load_picture(const std::string &path);

/// Triangle filter, as wide as a pixel of the coarser of the two grids.
Plane resize(const Plane &plane, int width, int height);

/// Fills width x height: the largest centred part of that aspect ratio, resized.
Picture crop_to(const Picture &picture, int width, int height);

/// Throws std::runtime_error when the file cannot be written.
void save_png(const Picture &picture, const std::string &path);

}  // namespace demo
