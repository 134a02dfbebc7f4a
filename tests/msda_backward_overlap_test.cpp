// A gradient of MSDA must not overlap itself, another gradient or an input; sharing an array without sharing elements is no
// overlap.
#include <algorithm>
#include <functional>

#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

MsdaBackwardCase small_case() {
    // As many weights as there are elements of grad_output: L * P = D.
    return make_backward_case({"", 2, 5, 3, 4, {{4, 6}, {1, 7}}, 2, Locations::kWide}, Type::kF32);
}

using Member = GuardedTensor MsdaBackwardTensors::*;

struct Named {
    const char *name;
    Member tensor;
};

const std::vector<Named> kInputs = {
    {"value", &MsdaBackwardTensors::value},
    {"spatial_shapes", &MsdaBackwardTensors::shapes},
    {"level_start_index", &MsdaBackwardTensors::starts},
    {"sampling_locations", &MsdaBackwardTensors::locations},
    {"attention_weights", &MsdaBackwardTensors::weights},
    {"grad_output", &MsdaBackwardTensors::grad_output},
};
const std::vector<Named> kGradients = {
    {"grad_value", &MsdaBackwardTensors::grad_value},
    {"grad_sampling_locations", &MsdaBackwardTensors::grad_locations},
    {"grad_attention_weights", &MsdaBackwardTensors::grad_weights},
};

/// Changes a gradient's place or strides; the call must be refused and write nothing.
void expect_refused(const std::function<void(MsdaBackwardTensors &)> &spoil, const std::vector<std::string> &words) {
    MsdaBackwardTensors tensors(small_case());
    spoil(tensors);
    EXPECT_EQ(tensors.call(), DEFORMKIT_OVERLAPPING_OUTPUT) << deformkit_last_error();
    for (const GuardedTensor *output : tensors.outputs()) {
        EXPECT_TRUE(output->all_poison()) << "a refused call wrote something";
    }
    const std::string message = deformkit_last_error();
    for (const std::string &word : words) {
        EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
    }
}

TEST(BackwardOverlap, GradientWithItself) {
    for (const Named &gradient : kGradients) {
        const int axes = (MsdaBackwardTensors(small_case()).*gradient.tensor).dl()->ndim;
        for (int axis = 0; axis < axes; axis++) {
            SCOPED_TRACE(::testing::Message() << gradient.name << ", axis " << axis);
            expect_refused([&](MsdaBackwardTensors &t) { (t.*gradient.tensor).dl()->strides[axis] = 0; }, {gradient.name});
        }
    }
}

// The inputs are in read-only memory: a call that is not refused ends the process.
TEST(BackwardOverlap, GradientWithInput) {
    for (const Named &gradient : kGradients) {
        for (const Named &input : kInputs) {
            for (int64_t floats : {0, 1, 3}) {
                SCOPED_TRACE(::testing::Message() << gradient.name << " on " << input.name << ", " << floats);
                expect_refused(
                    [&](MsdaBackwardTensors &t) {
                        (t.*gradient.tensor).dl()->data = static_cast<float *>((t.*input.tensor).dl()->data) + floats;
                    },
                    {gradient.name, input.name});
            }
        }
    }
}

TEST(BackwardOverlap, GradientWithGradient) {
    for (size_t i = 0; i < kGradients.size(); i++) {
        for (size_t j = 0; j < i; j++) {
            SCOPED_TRACE(::testing::Message() << kGradients[i].name << " on " << kGradients[j].name);
            const auto onto = [&](size_t moved, size_t other) {
                expect_refused(
                    [&](MsdaBackwardTensors &t) {
                        (t.*kGradients[moved].tensor).dl()->data =
                            static_cast<float *>((t.*kGradients[other].tensor).dl()->data) + 5;
                    },
                    {kGradients[i].name, kGradients[j].name});
            };
            onto(i, j);
            onto(j, i);
        }
    }
}

TEST(BackwardOverlap, WhatIsNotWantedDoesNotOverlap) {
    const MsdaBackwardCase c = small_case();
    MsdaBackwardTensors tensors(c);
    const Wanted wanted = {true, false, true};
    tensors.grad_locations.dl()->data = tensors.grad_value.dl()->data;
    EXPECT_EQ(tensors.call(wanted), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(matches_reference(c, tensors.gradients(wanted)));
}

TEST(BackwardOverlap, InterleavedGradientsAreNone) {
    // A column of three for each sample: the gradients of x, of y and of the weight.
    const MsdaBackwardCase c = small_case();
    MsdaBackwardTensors tensors(c);
    std::vector<float> memory(3 * c.samples());
    for (auto *tensor : {&tensors.grad_locations, &tensors.grad_weights}) {
        DLTensor *dl = tensor->dl();
        const bool locations = tensor == &tensors.grad_locations;
        for (int axis = 0; axis < 5; axis++) {
            dl->strides[axis] = dl->strides[axis] / (locations ? 2 : 1) * 3;
        }
        dl->data = memory.data() + (locations ? 0 : 2);
    }
    EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    MsdaGradients gradients = {tensors.grad_value.load_numbers(), {}, {}};
    for (int64_t s = 0; s < c.samples(); s++) {
        gradients.locations.insert(gradients.locations.end(), {memory[3 * s], memory[3 * s + 1]});
        gradients.weights.push_back(memory[3 * s + 2]);
    }
    EXPECT_TRUE(matches_reference(c, gradients));
}

TEST(BackwardOverlap, StrideZeroOfAnAxisOfOneIsNone) {
    const MsdaBackwardCase c = make_backward_case({"", 1, 5, 1, 4, {{4, 6}}, 2, Locations::kWide}, Type::kF32);
    MsdaBackwardTensors tensors(c);
    for (GuardedTensor *tensor : {&tensors.grad_value, &tensors.grad_locations, &tensors.grad_weights}) {
        tensor->dl()->strides[0] = tensor->dl()->strides[2] = 0;
    }
    EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(matches_reference(
        c, {tensors.grad_value.load_numbers(), tensors.grad_locations.load_numbers(), tensors.grad_weights.load_numbers()}));
}

}  // namespace
}  // namespace deformkit::testing
