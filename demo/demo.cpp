// Multi-scale deformable attention over a photograph, through the library's C interface: checked, timed, and drawn.
#include <deformkit/deformkit.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <future>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "demo/features.h"
#include "demo/figure.h"
#include "demo/picture.h"
#include "demo/queries.h"
#include "tests/support/reference.h"

namespace {

using namespace demo;
using deformkit::testing::View;

constexpr int kSamplesPerHead = kLevels * kPoints;
constexpr char kPortable[] = "msda_forward_f32_sse41";

/// A dense DLTensor of batch 1, over memory that someone else owns.
struct Tensor {
    std::vector<int64_t> shape;
    DLTensor dl;

    template <typename T>
    Tensor(const T *data, std::vector<int64_t> extents) : shape(std::move(extents)), dl{} {
        dl.data = const_cast<T *>(data);
        dl.device = {kDLCPU, 0};
        dl.ndim = int(shape.size());
        dl.dtype = {std::is_floating_point<T>::value ? uint8_t(kDLFloat) : uint8_t(kDLInt), 8 * sizeof(T), 1};
        dl.shape = shape.data();
    }
    Tensor(const Tensor &) = delete;
};

struct Attention {
    const Features &features;
    const Queries &queries;

    size_t output_size() const { return size_t(queries.count) * kHeads * kChannels; }

    void run(float *output) const {
        const Tensor value(features.value.get(), {1, features.keys, kHeads, kChannels});
        const Tensor shapes(features.level_shape.data(), {kLevels, 2});
        const Tensor starts(features.level_start.data(), {kLevels});
        const Tensor locations(queries.locations.get(), {1, queries.count, kHeads, kLevels, kPoints, 2});
        const Tensor weights(queries.weights.get(), {1, queries.count, kHeads, kLevels, kPoints});
        Tensor out(output, {1, queries.count, int64_t(kHeads) * kChannels});
        if (deformkit_msda_forward(&value.dl, &shapes.dl, &starts.dl, &locations.dl, &weights.dl, &out.dl) != DEFORMKIT_OK) {
            throw std::runtime_error(std::string("deformkit_msda_forward: ") + deformkit_last_error());
        }
    }

    /// In float64, by a program that shares nothing with the library; slices of the queries in parallel.
    void reference(std::vector<double> &result, std::vector<double> &magnitude) const {
        const int64_t keys = features.keys, slice = 1024;
        const auto run_slice = [=](int64_t first) {
            const int64_t count = std::min(slice, queries.count - first), samples = kHeads * kSamplesPerHead;
            std::pair<std::vector<double>, std::vector<double>> part;
            part.first = deformkit::testing::msda_forward_reference(
                View<float>{features.value.get(), {1, keys, kHeads, kChannels}, {0, kHeads * kChannels, kChannels, 1}},
                View<int64_t>{features.level_shape.data(), {kLevels, 2}, {2, 1}},
                View<int64_t>{features.level_start.data(), {kLevels}, {1}},
                View<float>{queries.locations.get() + first * samples * 2,
                            {1, count, kHeads, kLevels, kPoints, 2},
                            {0, samples * 2, kSamplesPerHead * 2, kPoints * 2, 2, 1}},
                View<float>{queries.weights.get() + first * samples,
                            {1, count, kHeads, kLevels, kPoints},
                            {0, samples, kSamplesPerHead, kPoints, 1}},
                &part.second);
            return part;
        };
        const int64_t threads = std::max(1u, std::thread::hardware_concurrency());
        for (int64_t first = 0; first < queries.count; first += threads * slice) {
            std::vector<std::future<std::pair<std::vector<double>, std::vector<double>>>> parts;
            for (int64_t t = first; t < std::min(first + threads * slice, queries.count); t += slice) {
                parts.push_back(std::async(std::launch::async, run_slice, t));
            }
            for (auto &part : parts) {
                const auto [sums, magnitudes] = part.get();
                result.insert(result.end(), sums.begin(), sums.end());
                magnitude.insert(magnitude.end(), magnitudes.begin(), magnitudes.end());
            }
        }
    }
};

/// Milliseconds of the fastest of at least five runs, and of as many as half a second holds.
double best_time(const Attention &attention, float *output, int *runs) {
    using Clock = std::chrono::steady_clock;
    double best = std::numeric_limits<double>::infinity();
    const Clock::time_point begin = Clock::now();
    for (*runs = 0; *runs < 5 || Clock::now() - begin < std::chrono::milliseconds(500); ++*runs) {
        const Clock::time_point start = Clock::now();
        attention.run(output);
        best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    }
    return best;
}

struct Comparison {
    double largest_error = 0, largest_share = 0;  ///< share: of the tolerance
    double rms = 0;
};

/// Tolerance of one output: rounding of a sum of 4 cells for each of 16 samples, and of the position, whose error of some 4 ulp
/// of the map's width shifts weight from one cell to the next.
Comparison compare(const float *output, const std::vector<double> &reference, const std::vector<double> &magnitude,
                   double largest_value) {
    const double epsilon = std::numeric_limits<float>::epsilon() / 2;
    const double position = 4 * epsilon * kLevelWidth[0] * largest_value;
    Comparison result;
    for (size_t i = 0; i < reference.size(); i++) {
        const double error = std::abs(output[i] - reference[i]);
        const double share = error / (4 * kSamplesPerHead * epsilon * magnitude[i] + position);
        // Written so that a NaN counts as wrong.
        if (!(share <= result.largest_share)) {
            result.largest_share = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
        }
        result.largest_error = std::max(result.largest_error, error);
        result.rms += reference[i] * reference[i] / double(reference.size());
    }
    result.rms = std::sqrt(result.rms);
    return result;
}

void usage(std::FILE *stream) {
    std::fputs(
        "usage: deformkit_demo [--gpu] PICTURE [--out FILE]     (FILE: a PNG, msda.png if not given; --gpu: on the first GPU "
        "target\n"
        "                                                        that answers)\n",
        stream);
}

/// Forces the first GPU target that answers.
void choose_gpu(const Attention &attention, float *output) {
    std::string reasons;
    for (const char *target : {"cuda", "opencl"}) {
        try {
            if (deformkit_set_target(target) != DEFORMKIT_OK) {
                throw std::runtime_error(deformkit_last_error());
            }
            attention.run(output);
            return;
        } catch (const std::runtime_error &error) {
            reasons += std::string("; ") + error.what();
        }
    }
    throw std::runtime_error("no GPU" + reasons);
}

int run(const std::string &path, const std::string &out, bool gpu) {
    const Picture original = load_picture(path);
    const Picture photograph = crop_to(original, kInputWidth, kInputHeight);
    std::printf("picture    %s, %d x %d, cropped and scaled to %d x %d\n", path.c_str(), original.width(), original.height(),
                kInputWidth, kInputHeight);

    const Features features = extract_features(photograph);
    const Queries queries = make_queries(features);
    const Attention attention{features, queries};
    const double samples = double(queries.count) * kHeads * kSamplesPerHead;
    std::printf("features   %lld cells on %d levels, %d heads x %d channels\n", static_cast<long long>(features.keys), kLevels,
                kHeads, kChannels);
    std::printf("queries    %lld, each %d heads x %d levels x %d points: %.2f million samples\n",
                static_cast<long long>(queries.count), kHeads, kLevels, kPoints, samples / 1e6);

    std::vector<double> reference, magnitude;
    attention.reference(reference, magnitude);
    const size_t cells = size_t(features.keys) * kHeads * kChannels;
    const double largest_value = *std::max_element(features.value.get(), features.value.get() + cells);

    const Floats output = allocate_floats(attention.output_size());
    const auto check_and_time = [&](const char *label) {
        std::fill_n(output.get(), attention.output_size(), std::numeric_limits<float>::quiet_NaN());
        attention.run(output.get());
        const std::string variant = deformkit_last_variant();
        const Comparison comparison = compare(output.get(), reference, magnitude, largest_value);
        std::printf("%-10s %s\n", label, variant.c_str());
        std::printf("  checked  %zu outputs against a float64 reference: largest error %.1e, %.0f %% of the tolerance\n",
                    reference.size(), comparison.largest_error, 100 * comparison.largest_share);
        if (!(comparison.largest_share <= 1) || !(comparison.rms > 0.01)) {
            throw std::runtime_error("WRONG RESULT from " + variant);
        }
        int runs = 0;
        const double time = best_time(attention, output.get(), &runs);
        std::printf("  time     %.2f ms (best of %d), %.0f million samples/s\n", time, runs, samples / time / 1e3);
        return std::make_pair(variant, time);
    };
    if (gpu) {
        choose_gpu(attention, output.get());
        std::printf("device     %s; tensors are in host memory: each call copies them there and back\n",
                    deformkit_last_device());
    }
    const auto [variant, time] = check_and_time("ran");
    char caption[160];
    std::snprintf(caption, sizeof(caption), "%s: %.2f million samples in %.1f ms", variant.c_str(), samples / 1e6, time);
    const Picture figure = draw_figure(photograph, features, queries, output.get(), caption);

    if (variant != kPortable) {
        if (deformkit_set_target(gpu ? nullptr : "sse41") != DEFORMKIT_OK) {
            throw std::runtime_error(deformkit_last_error());
        }
        const double other_time = check_and_time(gpu ? "CPU" : "portable").second;
        std::printf("compared   %.2f times as fast as %s\n", other_time / time, gpu ? "the CPU" : "the portable variant");
    }

    save_png(figure, out);
    std::printf("wrote      %s\n", out.c_str());
    return 0;
}

}  // namespace

int main(int argc, char **argv) {
    std::string picture, out = "msda.png";
    bool gpu = false;
    for (int i = 1; i < argc; i++) {
        const std::string argument = argv[i];
        if (argument == "--help" || argument == "-h") {
            usage(stdout);
            return 0;
        }
        if (argument == "--gpu") {
            gpu = true;
        } else if (argument == "--out") {
            if (++i == argc) {
                std::fputs("deformkit_demo: --out wants a file\n", stderr);
                return 1;
            }
            out = argv[i];
        } else if (argument.empty() || argument[0] == '-' || !picture.empty()) {
            std::fprintf(stderr, "deformkit_demo: did not expect '%s'\n", argv[i]);
            usage(stderr);
            return 1;
        } else {
            picture = argument;
        }
    }
    if (picture.empty()) {
        usage(stderr);
        return 1;
    }
    try {
        return run(picture, out, gpu);
    } catch (const std::exception &error) {
        std::fflush(stdout);
        std::fprintf(stderr, "deformkit_demo: %s\n", error.what());
        return 1;
    }
}
