#include "demo/picture.h"

#include <stb/stb_image.h>
#include <stb/stb_image_write.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace demo {

namespace {

constexpr int kSmallest = 64;

/// Weights of the input pixels `first`, `first + 1`, ... for one output pixel.
struct Filter {
    int first;
    std::vector<float> weights;
};

std::vector<Filter> triangle_filters(int from, int to) {
    const float scale = float(from) / float(to), radius = std::max(scale, 1.0f);
    std::vector<Filter> filters(to);
    for (int i = 0; i < to; i++) {
        const float center = (float(i) + 0.5f) * scale - 0.5f;
        const int first = std::max(int(std::ceil(center - radius)), 0), last = std::min(int(center + radius), from - 1);
        float total = 0;
        filters[i].first = first;
        for (int k = first; k <= last; k++) {
            filters[i].weights.push_back(std::max(1 - std::abs(float(k) - center) / radius, 0.0f));
            total += filters[i].weights.back();
        }
        for (float &weight : filters[i].weights) {
            weight /= total;
        }
    }
    return filters;
}

}  // namespace

Picture load_picture(const std::string &path) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE *)> file(std::fopen(path.c_str(), "rb"), std::fclose);
    if (!file) {
        throw std::runtime_error("cannot open " + path + ": " + std::strerror(errno));
    }
    int width = 0, height = 0;
    const std::unique_ptr<stbi_uc, void (*)(void *)> bytes(stbi_load_from_file(file.get(), &width, &height, nullptr, 3),
                                                           stbi_image_free);
    if (!bytes) {
        throw std::runtime_error("cannot read " + path + " as a picture: " + stbi_failure_reason());
    }
    if (width < kSmallest || height < kSmallest) {
        throw std::runtime_error(path + " is too small: " + std::to_string(width) + " x " + std::to_string(height) +
                                 " pixels, at least " + std::to_string(kSmallest) + " a side are needed");
    }
    Picture picture;
    for (int c = 0; c < 3; c++) {
        picture.channel[c] = Plane(width, height);
        for (size_t i = 0; i < picture.channel[c].pixels.size(); i++) {
            picture.channel[c].pixels[i] = float(bytes.get()[3 * i + c]) / 255;
        }
    }
    return picture;
}

Plane resize(const Plane &plane, int width, int height) {
    const std::vector<Filter> columns = triangle_filters(plane.width, width), rows = triangle_filters(plane.height, height);
    Plane narrow(width, plane.height), result(width, height);
    for (int y = 0; y < plane.height; y++) {
        for (int x = 0; x < width; x++) {
            const Filter &filter = columns[x];
            for (size_t k = 0; k < filter.weights.size(); k++) {
                narrow.at(x, y) += filter.weights[k] * plane.at(filter.first + int(k), y);
            }
        }
    }
    for (int y = 0; y < height; y++) {
        const Filter &filter = rows[y];
        for (size_t k = 0; k < filter.weights.size(); k++) {
            for (int x = 0; x < width; x++) {
                result.at(x, y) += filter.weights[k] * narrow.at(x, filter.first + int(k));
            }
        }
    }
    return result;
}

Picture crop_to(const Picture &picture, int width, int height) {
    const double scale = std::min(double(picture.width()) / width, double(picture.height()) / height);
    const int w = std::clamp(int(std::lround(width * scale)), 1, picture.width());
    const int h = std::clamp(int(std::lround(height * scale)), 1, picture.height());
    const int left = (picture.width() - w) / 2, top = (picture.height() - h) / 2;
    Picture result;
    for (int c = 0; c < 3; c++) {
        Plane part(w, h);
        for (int y = 0; y < h; y++) {
            for (int x = 0; x < w; x++) {
                part.at(x, y) = picture.channel[c].at(left + x, top + y);
            }
        }
        result.channel[c] = resize(part, width, height);
    }
    return result;
}

void save_png(const Picture &picture, const std::string &path) {
    std::vector<unsigned char> bytes;
    bytes.reserve(3 * picture.channel[0].pixels.size());
    for (size_t i = 0; i < picture.channel[0].pixels.size(); i++) {
        for (const Plane &channel : picture.channel) {
            bytes.push_back(static_cast<unsigned char>(std::lround(std::clamp(channel.pixels[i], 0.0f, 1.0f) * 255)));
        }
    }
    errno = 0;
    if (!stbi_write_png(path.c_str(), picture.width(), picture.height(), 3, bytes.data(), 3 * picture.width())) {
        throw std::runtime_error("cannot write " + path + (errno != 0 ? std::string(": ") + std::strerror(errno) : ""));
    }
}

}  // namespace demo
