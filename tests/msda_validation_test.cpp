// Calls that have to be refused: the status, what the message says, and that nothing was written. Calls that have to be
// accepted.
#include <algorithm>
#include <functional>

#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

/// Extents that differ from each other, so that a number in a message says which one it is.
MsdaCase proper_case() {
    return make_case({"", 8, 4, 3, 5, {{4, 6}, {1, 7}}, 9, Locations::kWide});
}

constexpr const char *kNames[] = {"value", "spatial_shapes", "level_start_index", "sampling_locations", "attention_weights",
                                  "output"};

/// A proper call, to be spoiled.
class Refusal : public ::testing::Test {
protected:
    Refusal() {
        for (int i = 0; i < 6; i++) {
            args_[i] = tensors_.at(i)->dl();
        }
    }

    deformkit_status call() { return deformkit_msda_forward(args_[0], args_[1], args_[2], args_[3], args_[4], args_[5]); }

    void expect_refused(deformkit_status expected, const std::vector<std::string> &words) {
        EXPECT_EQ(call(), expected) << deformkit_last_error();
        EXPECT_TRUE(c_->output.all_poison()) << "a refused call wrote something";
        const std::string message = deformkit_last_error();
        for (const std::string &word : words) {
            EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
        }
    }

    /// Spoils one argument after the other; each starts from a proper call.
    void for_each_argument(const std::function<void(int argument, DLTensor *tensor)> &spoil) {
        for (int i = 0; i < 6; i++) {
            SCOPED_TRACE(kNames[i]);
            DLTensor *tensor = tensors_.at(i)->dl();
            const DLTensor before = *tensor;
            spoil(i, tensor);
            *tensor = before;
            args_[i] = tensor;
        }
    }

    MsdaCase case_ = proper_case();
    std::unique_ptr<MsdaTensors> c_ = std::make_unique<MsdaTensors>(case_);
    std::vector<GuardedTensor *> tensors_ = {&c_->value, &c_->shapes, &c_->starts, &c_->locations, &c_->weights, &c_->output};
    DLTensor *args_[6] = {};
};

TEST_F(Refusal, ProperCallIsAccepted) {
    EXPECT_EQ(call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(matches_reference(case_, c_->output.load_numbers()));
}

TEST_F(Refusal, NullArgument) {
    for_each_argument([&](int i, DLTensor *) {
        args_[i] = nullptr;
        expect_refused(DEFORMKIT_NULL_ARGUMENT, {kNames[i]});
    });
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

TEST_F(Refusal, MessageNamesBothTypes) {
    args_[4]->dtype = {kDLFloat, 16, 1};
    expect_refused(DEFORMKIT_WRONG_DTYPE, {"attention_weights", "float16", "float32"});
    args_[4]->dtype = {kDLFloat, 32, 1};
    args_[1]->dtype = {kDLFloat, 32, 1};
    expect_refused(DEFORMKIT_WRONG_DTYPE, {"spatial_shapes", "int32", "int64", "float32"});
}

TEST_F(Refusal, TypesThatNoOperatorTakes) {
    for (const DLDataType dtype : {DLDataType{kDLInt, 8, 1}, {kDLInt, 32, 1}, {kDLUInt, 16, 1}, {kDLFloat, 8, 1}}) {
        for (int i : {0, 3, 4, 5}) {
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
            if (i == 0 && axis == 1) {
                continue;  // any number of keys will do
            }
            const int64_t proper = tensor->shape[axis];
            for (int64_t wrong : {proper + 1, proper - 1}) {
                SCOPED_TRACE(::testing::Message() << "axis " << axis << ": " << wrong << " instead of " << proper);
                tensor->shape[axis] = wrong;
                const bool channels = i == 0 && axis == 3;  // show only in the output, as M * D
                const int64_t heads = channels ? tensor->shape[2] : 1;
                expect_refused(DEFORMKIT_WRONG_SHAPE,
                               {kNames[i], std::to_string(heads * wrong), std::to_string(heads * proper)});
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
    // Everywhere the same: consistent, and still wrong.
    for (int i : {0, 3, 4, 5}) {
        args_[i]->shape[0] = -8;
    }
    expect_refused(DEFORMKIT_WRONG_SHAPE, {"-8"});
}

TEST_F(Refusal, OutputByHeadWithWrongExtents) {
    std::vector<int64_t> shape = {8, 4, 3, 6}, strides = {60, 15, 5, 1};
    args_[5]->ndim = 4;
    args_[5]->shape = shape.data();
    args_[5]->strides = strides.data();
    expect_refused(DEFORMKIT_WRONG_SHAPE, {"output", "6", "5"});
    shape = {8, 4, 5, 3};  // M and D exchanged
    expect_refused(DEFORMKIT_WRONG_SHAPE, {"output", "5", "3"});
}

TEST_F(Refusal, WrongDevice) {
    for_each_argument([&](int i, DLTensor *tensor) {
        tensor->device = {kDLCUDA, 1};
        expect_refused(DEFORMKIT_WRONG_DEVICE, {kNames[i]});
        tensor->device = {kDLOpenCL, 0};
        expect_refused(DEFORMKIT_WRONG_DEVICE, {kNames[i]});
    });
}

TEST_F(Refusal, RefusalLeavesTheNextCallAlone) {
    args_[0] = nullptr;
    expect_refused(DEFORMKIT_NULL_ARGUMENT, {"value"});
    const std::string message = deformkit_last_error();
    args_[0] = c_->value.dl();
    EXPECT_EQ(call(), DEFORMKIT_OK);
    EXPECT_TRUE(matches_reference(case_, c_->output.load_numbers()));
    EXPECT_EQ(deformkit_last_error(), message) << "valid until the next failure";
}

TEST(Accepted, NullDataOfEmptyTensors) {
    for (const char *name : {"no_batch", "no_queries", "no_keys", "no_levels", "no_points", "no_heads", "no_channels"}) {
        const MsdaCase c = make_case(awkward_workload(name));
        MsdaTensors tensors(c);
        for (GuardedTensor *tensor :
             {&tensors.value, &tensors.shapes, &tensors.starts, &tensors.locations, &tensors.weights, &tensors.output}) {
            if (count_of(tensor->shape()) == 0) {
                tensor->dl()->data = nullptr;
            }
        }
        EXPECT_EQ(tensors.call(), DEFORMKIT_OK) << name << ": " << deformkit_last_error();
        EXPECT_EQ(tensors.output.elements_in_poison(), 0) << name;
        for (double x : tensors.output.load_numbers()) {
            ASSERT_EQ(x, 0.0) << name;
        }
    }
}

TEST(Accepted, IndexTensorsOfDifferentTypes) {
    const MsdaCase c = proper_case();
    MsdaTensors tensors(c);
    GuardedTensor starts(dtype_of<int32_t>(), {c.L});
    starts.store(std::vector<int32_t>(c.starts.begin(), c.starts.end()));
    EXPECT_EQ(deformkit_msda_forward(tensors.value.dl(), tensors.shapes.dl(), starts.dl(), tensors.locations.dl(),
                                     tensors.weights.dl(), tensors.output.dl()),
              DEFORMKIT_OK)
        << deformkit_last_error();
    EXPECT_TRUE(matches_reference(c, tensors.output.load_numbers()));
}

}  // namespace
}  // namespace deformkit::testing
