#include "demo/figure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "demo/text.h"

namespace demo {

namespace {

constexpr int kMargin = 28, kGap = 14, kTitle = 44, kFooter = 92;
constexpr int kSideWidth = 656, kSideHeight = (kInputHeight - kTitle - kGap) / 2;
constexpr Colour kPaper{0.985f, 0.98f, 0.97f}, kInk{0.13f, 0.13f, 0.16f}, kGrey{0.42f, 0.42f, 0.46f}, kWhite{1, 1, 1};

/// A hue for each direction, evenly bright.
Colour head_colour(int head) {
    const auto channel = [&](double shift) {
        return float(0.56 + 0.44 * std::cos(head_angle(head) - shift * 3.14159265358979 / 180));
    };
    return {channel(20), channel(140), channel(260)};
}

/// Discs, and rings if `inner` is not 0, with smooth edges.
void draw_disc(Picture &picture, float x, float y, float outer, float inner, Colour colour, float opacity) {
    for (int row = int(y - outer) - 1; row <= int(y + outer) + 1; row++) {
        for (int column = int(x - outer) - 1; column <= int(x + outer) + 1; column++) {
            const float distance = std::hypot(float(column) - x, float(row) - y);
            const float cover = std::clamp(outer + 0.5f - distance, 0.0f, 1.0f) *
                                (inner > 0 ? std::clamp(distance - inner + 0.5f, 0.0f, 1.0f) : 1.0f);
            blend(picture, column, row, colour, opacity * cover);
        }
    }
}

/// Area in proportion to the weight, with a floor that keeps the faintest samples visible.
float point_radius(float weight) {
    return std::max(1.3f, 15 * std::sqrt(weight));
}

void draw_point(Picture &picture, float x, float y, float radius, Colour colour) {
    draw_disc(picture, x, y, radius + 1.2f, 0, {0.05f, 0.05f, 0.08f}, 0.55f);
    draw_disc(picture, x, y, radius, 0, colour, 0.95f);
}

void draw_query(Picture &picture, float x, float y) {
    draw_disc(picture, x, y, 11, 6, {0.05f, 0.05f, 0.08f}, 0.8f);
    draw_disc(picture, x, y, 9.7f, 7.3f, kWhite, 1);
}

void paste(Picture &canvas, const Picture &picture, int left, int top) {
    for (int c = 0; c < 3; c++) {
        for (int y = 0; y < picture.height(); y++) {
            std::copy_n(&picture.channel[c].at(0, y), picture.width(), &canvas.channel[c].at(left, top + y));
        }
    }
}

/// Queries of the finest level on the clearest edges, far enough from one another and from the border to be seen.
std::vector<int64_t> choose_queries(const Features &features, size_t count) {
    const int width = kLevelWidth[0], height = kLevelHeight[0], border = 18, apart = 36;
    std::vector<int64_t> order;
    for (int row = border; row < height - border; row++) {
        for (int column = border; column < width - border; column++) {
            order.push_back(int64_t(row) * width + column);
        }
    }
    const auto clarity = [&](int64_t q) { return features.structure[q].coherence * features.structure[q].strength; };
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return clarity(a) > clarity(b); });
    std::vector<int64_t> chosen;
    for (const int64_t q : order) {
        const bool alone = std::all_of(chosen.begin(), chosen.end(), [&](int64_t other) {
            return std::hypot(double(q % width - other % width), double(q / width - other / width)) >= apart;
        });
        if (alone && chosen.size() < count) {
            chosen.push_back(q);
        }
    }
    return chosen;
}

Picture draw_sampling(const Picture &photograph, const Features &features, const Queries &queries) {
    Picture picture = photograph;
    // Faded towards grey, so that the points' colours are the only bright ones.
    for (size_t i = 0; i < picture.channel[0].pixels.size(); i++) {
        float luma = 0;
        for (const Plane &channel : photograph.channel) {
            luma += channel.pixels[i] / 3;
        }
        for (Plane &channel : picture.channel) {
            channel.pixels[i] = 0.8f * (0.35f * channel.pixels[i] + 0.65f * luma);
        }
    }
    struct Point {
        float x, y, weight;
        int head;
    };
    for (const int64_t query : choose_queries(features, 6)) {
        std::vector<Point> points;
        for (int head = 0; head < kHeads; head++) {
            for (int l = 0; l < kLevels; l++) {
                for (int p = 0; p < kPoints; p++) {
                    const float *location = queries.location(query, head, l, p);
                    points.push_back({location[0] * kInputWidth - 0.5f, location[1] * kInputHeight - 0.5f,
                                      queries.weight(query, head, l, p), head});
                }
            }
        }
        std::stable_sort(points.begin(), points.end(), [](const Point &a, const Point &b) { return a.weight > b.weight; });
        for (const Point &point : points) {
            draw_point(picture, point.x, point.y, point_radius(point.weight), head_colour(point.head));
        }
        draw_query(picture, (float(query % kLevelWidth[0]) + 0.5f) / kLevelWidth[0] * kInputWidth,
                   (float(query / kLevelWidth[0]) + 0.5f) / kLevelHeight[0] * kInputHeight);
    }
    return picture;
}

/// The finest level's queries as a picture of kSideWidth x kSideHeight; `component(query, c)` gives red, green and blue.
template <typename F>
Picture draw_map(const F &component) {
    Picture picture;
    for (int c = 0; c < 3; c++) {
        Plane plane(kLevelWidth[0], kLevelHeight[0]);
        for (size_t q = 0; q < plane.pixels.size(); q++) {
            plane.pixels[q] = component(int64_t(q), c);
        }
        picture.channel[c] = resize(plane, kSideWidth, kSideHeight);
    }
    return picture;
}

Picture draw_colours(const float *output) {
    return draw_map([&](int64_t query, int c) {
        float sum = 0;
        for (int head = 0; head < kHeads; head++) {
            sum += output[(query * kHeads + head) * kChannels + c];
        }
        return sum / kHeads;
    });
}

/// Principal components by orthogonal iteration, on channels of unit variance.
Picture draw_components(const float *output) {
    constexpr int kAll = kHeads * kChannels;
    const int64_t count = int64_t(kLevelWidth[0]) * kLevelHeight[0];
    using Vector = std::array<double, kAll>;

    Vector mean{}, scale{};
    for (int64_t q = 0; q < count; q++) {
        for (int i = 0; i < kAll; i++) {
            mean[i] += output[q * kAll + i] / double(count);
            scale[i] += double(output[q * kAll + i]) * output[q * kAll + i] / double(count);
        }
    }
    for (int i = 0; i < kAll; i++) {
        // Position is the same smooth ramp for every picture: leave it out.
        const double variance = scale[i] - mean[i] * mean[i];
        scale[i] = i % kChannels < 24 && variance > 1e-12 ? 1 / std::sqrt(variance) : 0;
    }
    const auto centred = [&](int64_t q, int i) { return (output[q * kAll + i] - mean[i]) * scale[i]; };

    std::vector<Vector> covariance(kAll, Vector{});
    for (int64_t q = 0; q < count; q += 7) {
        for (int i = 0; i < kAll; i++) {
            for (int j = 0; j < kAll; j++) {
                covariance[i][j] += centred(q, i) * centred(q, j);
            }
        }
    }
    std::array<Vector, 3> axes;
    for (int c = 0; c < 3; c++) {
        for (int i = 0; i < kAll; i++) {
            axes[c][i] = std::cos(double((c + 1) * (i + 1)));
        }
    }
    const auto dot = [](const Vector &a, const Vector &b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); };
    for (int iteration = 0; iteration < 60; iteration++) {
        for (int c = 0; c < 3; c++) {
            Vector next;
            std::transform(covariance.begin(), covariance.end(), next.begin(),
                           [&](const Vector &row) { return dot(row, axes[c]); });
            for (int before = 0; before < c; before++) {
                const double shared = dot(next, axes[before]);
                std::transform(next.begin(), next.end(), axes[before].begin(), next.begin(),
                               [&](double a, double b) { return a - shared * b; });
            }
            const double length = std::sqrt(dot(next, next)) + 1e-30;
            std::transform(next.begin(), next.end(), axes[c].begin(), [&](double a) { return a / length; });
        }
    }

    // From the 2nd to the 98th of a hundred, so that a few extremes do not grey out the rest.
    std::array<std::vector<float>, 3> projected;
    std::array<float, 3> low{}, high{};
    for (int c = 0; c < 3; c++) {
        for (int64_t q = 0; q < count; q++) {
            double sum = 0;
            for (int i = 0; i < kAll; i++) {
                sum += centred(q, i) * axes[c][i];
            }
            projected[c].push_back(float(sum));
        }
        std::vector<float> sorted = projected[c];
        std::sort(sorted.begin(), sorted.end());
        low[c] = sorted[count / 50];
        high[c] = std::max(sorted[count - 1 - count / 50], low[c] + 1e-6f);
    }
    return draw_map([&](int64_t q, int c) { return 0.08f + 0.86f * (projected[c][q] - low[c]) / (high[c] - low[c]); });
}

void draw_legend(Picture &canvas, const Font &font, float x, float y) {
    draw_query(canvas, x + 10, y - 6);
    x = font.draw(canvas, x + 28, y, 19, kInk, "query") + 44;
    x = font.draw(canvas, x, y, 19, kInk, "head") + 14;
    for (int head = 0; head < kHeads; head++) {
        draw_point(canvas, x + 8, y - 6, 8, head_colour(head));
        x = font.draw(canvas, x + 20, y, 16, kGrey, std::to_string(head)) + 12;
    }
    x = font.draw(canvas, x + 34, y, 19, kInk, "attention weight") + 16;
    for (const char *weight : {"0.01", "0.1", "0.3"}) {
        const float radius = point_radius(std::stof(weight));
        draw_point(canvas, x + radius, y - 6, radius, kGrey);
        x = font.draw(canvas, x + 2 * radius + 6, y, 16, kGrey, weight) + 16;
    }
}

}  // namespace

Picture draw_figure(const Picture &photograph, const Features &features, const Queries &queries, const float *output,
                    const std::string &caption) {
    const int width = kMargin + kInputWidth + kGap + kSideWidth + kMargin;
    const int height = kMargin + kTitle + kInputHeight + kFooter;
    const int side = kMargin + kInputWidth + kGap, top = kMargin + kTitle;
    Picture canvas;
    canvas.channel[0] = Plane(width, height, kPaper.r);
    canvas.channel[1] = Plane(width, height, kPaper.g);
    canvas.channel[2] = Plane(width, height, kPaper.b);

    paste(canvas, draw_sampling(photograph, features, queries), kMargin, top);
    paste(canvas, draw_colours(output), side, top);
    paste(canvas, draw_components(output), side, top + kSideHeight + kTitle + kGap);

    const Font font;
    const auto title = [&](int x, int y, const char *text) { font.draw(canvas, float(x), float(y - 15), 23, kInk, text); };
    title(kMargin, top, "Where six queries look: 8 heads x 4 levels x 4 points each");
    title(side, top, "What every query gathered: colour (3 of 32 channels)");
    title(side, top + kSideHeight + kTitle + kGap, "What every query gathered: all 256 channels (PCA)");
    draw_legend(canvas, font, kMargin, float(height - kFooter + 50));
    font.draw(canvas, float(side), float(height - kFooter + 50), 19, kGrey, caption);
    return canvas;
}

}  // namespace demo
