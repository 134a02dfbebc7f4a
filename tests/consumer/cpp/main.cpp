// Uses the installed library from C++: a result, a refusal, and which variant ran.
#include <deformkit/deformkit.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <vector>

namespace {

/// A dense tensor that owns its memory.
template <typename T>
struct Tensor {
    std::vector<int64_t> shape;
    std::vector<T> data;

    DLTensor dl() {
        DLTensor t{};
        t.data = data.data();
        t.device = {kDLCPU, 0};
        t.ndim = int32_t(shape.size());
        t.dtype = {std::is_floating_point<T>::value ? uint8_t(kDLFloat) : uint8_t(kDLInt), 8 * sizeof(T), 1};
        t.shape = shape.data();
        return t;
    }
};

int failures = 0;

void expect(bool truth, const char *what) {
    if (!truth) {
        std::fprintf(stderr, "not so: %s\n", what);
        failures++;
    }
}

}  // namespace

int main() {
    // Two levels of 2 x 2 and 1 x 1 cells, whose values are their keys + 1; two queries, two heads of three channels.
    const int64_t keys = 5, queries = 2, heads = 2, channels = 3, levels = 2;
    Tensor<float> value{{1, keys, heads, channels}, {}};
    for (int64_t k = 0; k < keys; k++) {
        for (int64_t m = 0; m < heads; m++) {
            for (int64_t d = 0; d < channels; d++) {
                value.data.push_back(float(k + 1) * (m == 0 ? 1.0f : -2.0f) + float(d) * 0.25f);
            }
        }
    }
    Tensor<int32_t> level_shapes{{levels, 2}, {2, 2, 1, 1}}, level_starts{{levels}, {0, 4}};
    // Every query and head: the middle of the large level (weight 0.5) and of the small one (weight 0.25 * (q + 1)).
    Tensor<float> locations{{1, queries, heads, levels, 1, 2}, std::vector<float>(size_t(queries * heads * levels * 2), 0.5f)};
    Tensor<float> weights{{1, queries, heads, levels, 1}, {0.5f, 0.25f, 0.5f, 0.25f, 0.5f, 0.5f, 0.5f, 0.5f}};
    Tensor<float> output{{1, queries, heads * channels}, std::vector<float>(size_t(queries * heads * channels), NAN)};

    DLTensor v = value.dl(), hw = level_shapes.dl(), start = level_starts.dl(), xy = locations.dl(), w = weights.dl();
    DLTensor out = output.dl();
    const deformkit_status status = deformkit_msda_forward(&v, &hw, &start, &xy, &w, &out);
    if (status != DEFORMKIT_OK) {
        std::fprintf(stderr, "status %d: %s\n", int(status), deformkit_last_error());
        return 1;
    }
    for (int64_t q = 0; q < queries; q++) {
        for (int64_t m = 0; m < heads; m++) {
            for (int64_t d = 0; d < channels; d++) {
                const float sign = m == 0 ? 1.0f : -2.0f, shift = float(d) * 0.25f, small = 0.25f * float(q + 1);
                const float expected = 0.5f * (2.5f * sign + shift) + small * (5 * sign + shift);
                expect(output.data[size_t((q * heads + m) * channels + d)] == expected, "the sum of both levels");
            }
        }
    }
    expect(std::string(deformkit_last_variant()).rfind("msda_forward_f32_", 0) == 0, "a float32 variant ran");
    expect(std::string(deformkit_version()).find('.') != std::string::npos, "the version has a dot");

    const std::vector<float> before = output.data;
    expect(deformkit_msda_forward(&v, &hw, &start, &xy, nullptr, &out) == DEFORMKIT_NULL_ARGUMENT, "NULL is refused");
    expect(std::string(deformkit_last_error()).find("attention_weights") != std::string::npos,
           "the message names the argument");
    expect(output.data == before, "a refused call writes nothing");
    std::printf("%s, deformkit %s: %s\n", deformkit_last_variant(), deformkit_version(), failures == 0 ? "right" : "wrong");
    return failures == 0 ? 0 : 1;
}
