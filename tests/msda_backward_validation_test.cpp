// Calls of MSDA backward that have to be refused: the status, what the message says, and that nothing was written. Calls that
// have to be accepted.
#include <algorithm>
#include <functional>
#include <memory>

#include "tests/msda_backward_case.h"

namespace deformkit::testing {
namespace {

/// Extents that differ from each other, so that a number in a message says which one it is.
MsdaBackwardCase proper_case() {
    return make_backward_case({"", 8, 4, 3, 5, {{4, 6}, {1, 7}}, 9, Locations::kWide}, Type::kF32);
}

constexpr int kArguments = 9, kFirstGradient = 6;
constexpr const char *kNames[kArguments] = {
    "value",       "spatial_shapes", "level_start_index",       "sampling_locations",    "attention_weights",
    "grad_output", "grad_value",     "grad_sampling_locations", "grad_attention_weights"};

/// A proper call, to be spoiled.
class Refusal : public ::testing::Test {
protected:
    Refusal() {
        for (int i = 0; i < kArguments; i++) {
            args_[i] = tensors_[i]->dl();
        }
    }

    deformkit_status call() {
        return deformkit_msda_backward(args_[0], args_[1], args_[2], args_[3], args_[4], args_[5], args_[6], args_[7],
                                       args_[8]);
    }

    void expect_refused(deformkit_status expected, const std::vector<std::string> &words) {
        EXPECT_EQ(call(), expected) << deformkit_last_error();
        for (const GuardedTensor *output : c_->outputs()) {
            EXPECT_TRUE(output->all_poison()) << "a refused call wrote something";
        }
        const std::string message = deformkit_last_error();
        for (const std::string &word : words) {
            EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
        }
    }

    /// Spoils one argument after the other; each starts from a proper call.
    void for_each_argument(const std::function<void(int argument, DLTensor *tensor)> &spoil) {
        for (int i = 0; i < kArguments; i++) {
            SCOPED_TRACE(kNames[i]);
            DLTensor *tensor = tensors_[i]->dl();
            const DLTensor before = *tensor;
            spoil(i, tensor);
            *tensor = before;
            args_[i] = tensor;
        }
    }

    MsdaBackwardCase case_ = proper_case();
    std::unique_ptr<MsdaBackwardTensors> c_ = std::make_unique<MsdaBackwardTensors>(case_);
    std::vector<GuardedTensor *> tensors_ = c_->all();
    DLTensor *args_[kArguments] = {};
};

TEST_F(Refusal, ProperCallIsAccepted) {
    EXPECT_EQ(call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(matches_reference(case_, c_->gradients()));
}

TEST_F(Refusal, NullArgument) {
    for_each_argument([&](int i, DLTensor *) {
        if (i < kFirstGradient) {
            args_[i] = nullptr;
            expect_refused(DEFORMKIT_NULL_ARGUMENT, {kNames[i]});
        }
    });
}

TEST_F(Refusal, NullArgumentAlsoWhenNothingIsWanted) {
    args_[6] = args_[7] = args_[8] = nullptr;
    args_[0] = nullptr;
    expect_refused(DEFORMKIT_NULL_ARGUMENT, {"value"});
}

TEST_F(Refusal, NullData) {
    for_each_argument([&](int i, DLTensor *tensor) {
        tensor->data = nullptr;
        expect_refused(DEFORMKIT_NULL_ARGUMENT, {kNames[i]});
    });
}

TEST_F(Refusal, NullShape) {
    for_each_argument([&](int i, DLTensor *tensor) {
        tensor->shape = nullptr;
        expect_refused(DEFORMKIT_NULL_ARGUMENT, {kNames[i]});
    });
}

TEST_F(Refusal, WrongDtype) {
    const DLDataType f64 = {kDLFloat, 64, 1}, f16 = {kDLFloat, 16, 1}, bf16 = {kDLBfloat, 16, 1}, i8 = {kDLInt, 8, 1};
    const DLDataType i32 = {kDLInt, 32, 1}, u64 = {kDLUInt, 64, 1}, c64 = {kDLComplex, 64, 1}, f32 = {kDLFloat, 32, 1};
    const DLDataType f32x2 = {kDLFloat, 32, 2}, i32x2 = {kDLInt, 32, 2}, i16 = {kDLInt, 16, 1}, f32x0 = {kDLFloat, 32, 0};
    for_each_argument([&](int i, DLTensor *tensor) {
        const bool index = i == 1 || i == 2;
        for (const DLDataType &dtype : index ? std::vector{f32, f64, u64, i8, i16, i32x2}
                                             : std::vector{f64, f16, bf16, i8, i32, u64, c64, f32x2, f32x0}) {
            SCOPED_TRACE(::testing::Message()
                         << "code " << int{dtype.code} << ", " << int{dtype.bits} << " bits, " << int{dtype.lanes} << " lanes");
            tensor->dtype = dtype;
            expect_refused(DEFORMKIT_WRONG_DTYPE, {kNames[i]});
        }
    });
}

TEST_F(Refusal, TypesThatNoOperatorTakes) {
    for (const DLDataType dtype : {DLDataType{kDLInt, 8, 1}, {kDLInt, 32, 1}, {kDLUInt, 16, 1}, {kDLFloat, 8, 1}}) {
        for (int i : {0, 3, 4, 5, 6, 7, 8}) {
            args_[i]->dtype = dtype;
        }
        expect_refused(DEFORMKIT_WRONG_DTYPE, {"value: expected one of float32, float16, bfloat16, float64, got"});
    }
}

TEST_F(Refusal, WrongNumberOfAxes) {
    for_each_argument([&](int i, DLTensor *tensor) {
        const int axes = tensor->ndim;
        for (int wrong : {axes - 1, axes + (i == 5 ? 2 : 1), 0, -1}) {
            std::vector<int64_t> shape(tensor->shape, tensor->shape + axes), strides(tensor->strides, tensor->strides + axes);
            shape.resize(axes + 2, 1);
            strides.resize(axes + 2, 1);
            DLTensor spoilt = *tensor;
            spoilt.ndim = wrong;
            spoilt.shape = shape.data();
            spoilt.strides = strides.data();
            args_[i] = &spoilt;
            SCOPED_TRACE(wrong);
            expect_refused(DEFORMKIT_WRONG_SHAPE, {kNames[i], std::to_string(wrong), std::to_string(axes)});
        }
    });
}

TEST_F(Refusal, WrongExtent) {
    for_each_argument([&](int i, DLTensor *tensor) {
        for (int axis = 0; axis < tensor->ndim; axis++) {
            const int64_t proper = tensor->shape[axis];
            for (int64_t wrong : {proper + 1, proper - 1}) {
                SCOPED_TRACE(::testing::Message() << "axis " << axis << ": " << wrong << " instead of " << proper);
                tensor->shape[axis] = wrong;
                // What value says is compared with the others, one of which is named: extents in both, D as M * D or itself.
                const bool channels = i == 0 && axis == 3;
                const std::vector<std::string> words =
                    channels ? std::vector<std::string>{} : std::vector{std::to_string(wrong), std::to_string(proper)};
                expect_refused(DEFORMKIT_WRONG_SHAPE, words);
                if (i >= 3) {
                    expect_refused(DEFORMKIT_WRONG_SHAPE, {kNames[i]});
                }
                tensor->shape[axis] = proper;
            }
        }
    });
}

TEST_F(Refusal, NegativeExtent) {
    for_each_argument([&](int i, DLTensor *tensor) {
        for (int axis = 0; axis < tensor->ndim; axis++) {
            const int64_t proper = tensor->shape[axis];
            SCOPED_TRACE(axis);
            tensor->shape[axis] = -3;
            expect_refused(DEFORMKIT_WRONG_SHAPE, {kNames[i], "-3"});
            tensor->shape[axis] = proper;
        }
    });
    for (int i : {0, 3, 4, 5, 6, 7, 8}) {
        args_[i]->shape[0] = -8;
    }
    expect_refused(DEFORMKIT_WRONG_SHAPE, {"-8"});
}

TEST_F(Refusal, GradOutputByHeadWithWrongExtents) {
    std::vector<int64_t> shape = {8, 4, 3, 6}, strides = {60, 15, 5, 1};
    args_[5]->ndim = 4;
    args_[5]->shape = shape.data();
    args_[5]->strides = strides.data();
    expect_refused(DEFORMKIT_WRONG_SHAPE, {"grad_output", "6", "5"});
    shape = {8, 4, 5, 3};  // M and D exchanged
    expect_refused(DEFORMKIT_WRONG_SHAPE, {"grad_output", "5", "3"});
}

TEST_F(Refusal, WrongDevice) {
    for_each_argument([&](int i, DLTensor *tensor) {
        for (const DLDevice &device : {DLDevice{kDLCUDA, 1}, DLDevice{kDLOpenCL, 0}}) {
            tensor->device = device;
            expect_refused(DEFORMKIT_WRONG_DEVICE, {kNames[i]});
        }
    });
}

/// A gradient that is wanted is checked also when others are not.
TEST_F(Refusal, OneWantedGradient) {
    for (int i = kFirstGradient; i < kArguments; i++) {
        for (int other = kFirstGradient; other < kArguments; other++) {
            args_[other] = other == i ? tensors_[i]->dl() : nullptr;
        }
        args_[i]->shape[1]++;
        expect_refused(DEFORMKIT_WRONG_SHAPE, {kNames[i]});
        args_[i]->shape[1]--;
        args_[i]->dtype.bits = 16;
        expect_refused(DEFORMKIT_WRONG_DTYPE, {kNames[i]});
        args_[i]->dtype.bits = 32;
    }
}

TEST_F(Refusal, RefusalLeavesTheNextCallAlone) {
    args_[5] = nullptr;
    expect_refused(DEFORMKIT_NULL_ARGUMENT, {"grad_output"});
    const std::string message = deformkit_last_error();
    args_[5] = c_->grad_output.dl();
    EXPECT_EQ(call(), DEFORMKIT_OK);
    EXPECT_TRUE(matches_reference(case_, c_->gradients()));
    EXPECT_EQ(deformkit_last_error(), message) << "valid until the next failure";
}

TEST(Accepted, NothingWanted) {
    const MsdaBackwardCase c = proper_case();
    run(c, {}, {false, false, false});
    EXPECT_STREQ(deformkit_last_variant(), "");
}

/// Overwritten, never accumulated: what gradients held before makes no difference, and neither does a second call.
TEST(Accepted, GradientsAreOverwritten) {
    const MsdaBackwardCase c = proper_case();
    MsdaBackwardTensors tensors(c);
    ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    const MsdaGradients once = tensors.gradients();
    ASSERT_EQ(tensors.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(same_bits(tensors.gradients(), once));
}

TEST(Accepted, EmptySizes) {
    for (const char *name : {"no_batch", "no_queries", "no_keys", "no_levels", "no_points", "no_heads", "no_channels"}) {
        const MsdaBackwardCase c = make_backward_case(awkward_workload(name), Type::kF32);
        for (const Wanted &wanted : all_subsets()) {
            const MsdaGradients gradients = run(c, {}, wanted);
            for (const auto *each : {&gradients.value, &gradients.locations, &gradients.weights}) {
                EXPECT_TRUE(same_bits(*each, std::vector<double>(each->size(), 0.0))) << name;
            }
            EXPECT_STREQ(deformkit_last_variant(), "") << name << ": no kernel is needed";
        }
    }
    EXPECT_GT(run(make_backward_case(awkward_workload("no_queries"), Type::kF32)).value.size(), 0u);
    EXPECT_GT(run(make_backward_case(awkward_workload("no_keys"), Type::kF32)).weights.size(), 0u);
}

TEST(Accepted, NullDataOfEmptyTensors) {
    for (const char *name : {"no_batch", "no_queries", "no_keys", "no_levels", "no_points", "no_heads", "no_channels"}) {
        const MsdaBackwardCase c = make_backward_case(awkward_workload(name), Type::kF32);
        MsdaBackwardTensors tensors(c);
        for (GuardedTensor *tensor : tensors.all()) {
            if (count_of(tensor->shape()) == 0) {
                tensor->dl()->data = nullptr;
            }
        }
        EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << name << ": " << deformkit_last_error();
        for (const GuardedTensor *output : tensors.outputs()) {
            EXPECT_EQ(output->elements_in_poison(), 0) << name;
        }
    }
}

TEST(Accepted, IndexTensorsOfDifferentTypes) {
    const MsdaBackwardCase c = proper_case();
    MsdaBackwardTensors tensors(c);
    GuardedTensor starts(dtype_of<int32_t>(), {c.L});
    starts.store(std::vector<int32_t>(c.starts.begin(), c.starts.end()));
    EXPECT_EQ(deformkit_msda_backward(tensors.value.dl(), tensors.shapes.dl(), starts.dl(), tensors.locations.dl(),
                                      tensors.weights.dl(), tensors.grad_output.dl(), tensors.grad_value.dl(),
                                      tensors.grad_locations.dl(), tensors.grad_weights.dl()),
              DEFORMKIT_OK)
        << deformkit_last_error();
    EXPECT_TRUE(matches_reference(c, tensors.gradients()));
}

/// Every row of one kernel has its counterpart: tests that force a row of backward_value test both.
TEST(Variants, KernelsOfBackwardComeInPairs) {
    int value = 0, samples = 0;
    for (const Variant &variant : all_variants()) {
        if (variant.op != "msda" || variant.pass.rfind("backward_", 0) != 0) {
            continue;
        }
        const bool is_value = variant.pass == "backward_value";
        ++(is_value ? value : samples);
        const std::string other = is_value ? "backward_samples" : "backward_value";
        EXPECT_TRUE(std::any_of(all_variants().begin(), all_variants().end(), [&](const Variant &v) {
            return v.op == "msda" && v.pass == other && v.type_name == variant.type_name && v.target == variant.target;
        })) << variant.name();
    }
    EXPECT_GT(value, 0);
    EXPECT_EQ(value, samples);
}

}  // namespace
}  // namespace deformkit::testing
