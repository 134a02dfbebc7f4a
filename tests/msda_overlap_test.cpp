// An output must not overlap itself or an input; sharing an array without sharing elements is no overlap.
#include <algorithm>
#include <functional>

#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

MsdaCase small_case() {
    return make_case({"", 2, 5, 3, 4, {{4, 6}, {1, 7}}, 2, Locations::kWide});
}

/// Changes the output's place or strides; the call must be refused and write nothing.
void expect_refused(const std::function<void(MsdaTensors &)> &spoil, const std::vector<std::string> &words) {
    // Room enough on all sides for every change below.
    MsdaLayout layout;
    layout.output.pad = {0, 100, 0};
    MsdaTensors tensors(small_case(), layout);
    spoil(tensors);
    EXPECT_EQ(tensors.call(), DEFORMKIT_OVERLAPPING_OUTPUT) << deformkit_last_error();
    EXPECT_TRUE(tensors.output.all_poison()) << "a refused call wrote something";
    const std::string message = deformkit_last_error();
    for (const std::string &word : words) {
        EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
    }
}

TEST(Overlap, OutputWithItself) {
    const std::vector<std::vector<int64_t>> strides = {
        {60, 0, 1},  {0, 12, 1}, {60, 12, 0},  {0, 0, 0},    {60, 11, 1},
        {59, 12, 1}, {1, 12, 1}, {-59, 12, 1}, {60, -11, 1}, {60, 12, 2},
    };
    for (const std::vector<int64_t> &s : strides) {
        SCOPED_TRACE(::testing::Message() << "strides " << s[0] << ", " << s[1] << ", " << s[2]);
        expect_refused(
            [&](MsdaTensors &t) {
                std::copy(s.begin(), s.end(), t.output.dl()->strides);
                // Into the middle, away from both ends.
                t.output.dl()->data = static_cast<float *>(t.output.dl()->data) + 300;
            },
            {"output"});
    }
}

// The inputs are in read-only memory: a call that is not refused ends the process.
TEST(Overlap, OutputWithInput) {
    const auto onto = [](GuardedTensor MsdaTensors::*input, int64_t floats) {
        return [=](MsdaTensors &t) {
            DLTensor *output = t.output.dl();
            output->strides = nullptr;
            output->data = static_cast<float *>((t.*input).dl()->data) + floats;
        };
    };
    expect_refused(onto(&MsdaTensors::value, 0), {"output", "value"});
    expect_refused(onto(&MsdaTensors::value, 17), {"output", "value"});
    expect_refused(onto(&MsdaTensors::value, 2 * 31 * 3 * 4 - 1), {"output", "value"});
    expect_refused(onto(&MsdaTensors::value, -(2 * 5 * 3 * 4 - 1)), {"output", "value"});
    expect_refused(onto(&MsdaTensors::locations, 3), {"output", "sampling_locations"});
    expect_refused(onto(&MsdaTensors::weights, 0), {"output", "attention_weights"});
    expect_refused(onto(&MsdaTensors::shapes, 1), {"output", "spatial_shapes"});
    expect_refused(onto(&MsdaTensors::starts, 3), {"output", "level_start_index"});
    expect_refused(
        [](MsdaTensors &t) {
            // By way of byte_offset.
            t.output.dl()->strides = nullptr;
            t.output.dl()->data = static_cast<float *>(t.weights.dl()->data) - 1000;
            t.output.dl()->byte_offset = 4004;
        },
        {"output", "attention_weights"});
}

TEST(Overlap, StrideZeroOfAnAxisOfOneIsNone) {
    const MsdaCase c = make_case({"", 1, 5, 1, 4, {{4, 6}}, 2, Locations::kWide});
    MsdaTensors tensors(c);
    tensors.output.dl()->strides[0] = 0;
    EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(matches_reference(c, tensors.output.load_numbers()));
}

TEST(Overlap, NeighboursAreNone) {
    const MsdaCase c = small_case();
    const size_t values = c.value.size(), outputs = c.B * c.Q * c.M * c.D;
    for (const bool output_first : {true, false}) {
        std::vector<float> memory(values + outputs);
        float *value = memory.data() + (output_first ? outputs : 0), *output = memory.data() + (output_first ? 0 : values);
        std::copy(c.value.begin(), c.value.end(), value);
        MsdaTensors tensors(c);
        tensors.value.dl()->data = value;
        tensors.output.dl()->data = output;
        EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
        EXPECT_TRUE(matches_reference(c, std::vector<double>(output, output + outputs)));
        EXPECT_TRUE(same_bits(std::vector<double>(value, value + values), c.value));
    }
}

TEST(Overlap, InterleavedWithAnInputIsNone) {
    // Weights in the even elements of an array, the output in the odd ones. As many weights as outputs: L * P = D.
    const MsdaCase c = small_case();
    ASSERT_EQ(c.L * c.P, c.D);
    const size_t n = c.weights.size();
    std::vector<float> memory(2 * n);
    for (size_t i = 0; i < n; i++) {
        memory[2 * i] = static_cast<float>(c.weights[i]);
    }
    MsdaTensors tensors(c);
    for (GuardedTensor *tensor : {&tensors.weights, &tensors.output}) {
        for (int axis = 0; axis < tensor->dl()->ndim; axis++) {
            tensor->dl()->strides[axis] *= 2;
        }
    }
    tensors.weights.dl()->data = memory.data();
    tensors.output.dl()->data = memory.data() + 1;
    EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    std::vector<double> output(n);
    for (size_t i = 0; i < n; i++) {
        EXPECT_EQ(memory[2 * i], c.weights[i]);
        output[i] = memory[2 * i + 1];
    }
    EXPECT_TRUE(matches_reference(c, output));
}

TEST(Overlap, SlicesOfOneRowAreNone) {
    // A projection that leaves weights and room for the output side by side in each row: [B * Q, M * L * P + M * D].
    const MsdaCase c = small_case();
    const int64_t inputs = c.M * c.L * c.P, outputs = c.M * c.D, row = inputs + outputs, rows = c.B * c.Q;
    std::vector<float> memory(rows * row);
    for (int64_t r = 0; r < rows; r++) {
        std::copy_n(&c.weights[r * inputs], inputs, &memory[r * row]);
    }
    MsdaTensors tensors(c);
    for (GuardedTensor *tensor : {&tensors.weights, &tensors.output}) {
        tensor->dl()->strides[0] = c.Q * row;
        tensor->dl()->strides[1] = row;
    }
    tensors.weights.dl()->data = memory.data();
    tensors.output.dl()->data = memory.data() + inputs;
    EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    std::vector<double> output;
    for (int64_t r = 0; r < rows; r++) {
        EXPECT_TRUE(std::equal(&c.weights[r * inputs], &c.weights[r * inputs] + inputs, &memory[r * row]));
        output.insert(output.end(), &memory[r * row + inputs], &memory[r * row + inputs] + outputs);
    }
    EXPECT_TRUE(matches_reference(c, output));
}

}  // namespace
}  // namespace deformkit::testing
