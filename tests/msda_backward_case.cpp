#include "tests/msda_backward_case.h"

#include <algorithm>
#include <cmath>
#include <random>

namespace deformkit::testing {

namespace {

DLDataType index_dtype(const MsdaBackwardLayout &layout) {
    return {kDLInt, static_cast<uint8_t>(layout.index_bits), 1};
}

void store_index(GuardedTensor &tensor, const std::vector<int64_t> &data, int bits) {
    if (bits == 32) {
        tensor.store(std::vector<int32_t>(data.begin(), data.end()));
    } else {
        tensor.store(data);
    }
}

std::vector<double> stored(Type type, const std::vector<float> &numbers) {
    return rounded(type, std::vector<double>(numbers.begin(), numbers.end()));
}

}  // namespace

std::vector<double> rounded(Type type, std::vector<double> numbers) {
    for (double &number : numbers) {
        number = nearest(type, number);
    }
    return numbers;
}

MsdaBackwardCase make_backward_case(const MsdaWorkload &w, Type type, uint32_t seed) {
    const MsdaInputs inputs = make_msda_inputs(w, seed);
    MsdaBackwardCase c;
    c.type = type;
    c.B = w.batch, c.K = w.keys(), c.M = w.heads, c.D = w.channels, c.Q = w.queries;
    c.L = static_cast<int64_t>(w.levels.size()), c.P = w.points;
    c.value = stored(type, inputs.value);
    c.locations = stored(type, inputs.sampling_locations);
    c.weights = stored(type, inputs.attention_weights);
    c.shapes = inputs.spatial_shapes;
    c.starts = inputs.level_start_index;
    std::minstd_rand random(seed + 1);
    for (int64_t i = 0; i < c.B * c.Q * c.M * c.D; i++) {
        c.grad_output.push_back(nearest(type, static_cast<double>(random()) / (1 << 30) - 1));
    }
    return c;
}

MsdaBackwardCase take_queries(const MsdaBackwardCase &from, int64_t queries) {
    MsdaBackwardCase to = from;
    to.Q = std::min(queries, from.Q);
    const int64_t samples = from.M * from.L * from.P, row = from.M * from.D;
    to.locations.clear(), to.weights.clear(), to.grad_output.clear();
    const auto take = [](const std::vector<double> &source, int64_t q, int64_t count, std::vector<double> &target) {
        target.insert(target.end(), source.begin() + q * count, source.begin() + (q + 1) * count);
    };
    for (int64_t b = 0; b < from.B; b++) {
        for (int64_t i = 0; i < to.Q; i++) {
            const int64_t q = b * from.Q + i * from.Q / to.Q;
            take(from.locations, q, samples * 2, to.locations);
            take(from.weights, q, samples, to.weights);
            take(from.grad_output, q, row, to.grad_output);
        }
    }
    return to;
}

void avoid_ties(MsdaBackwardCase &c) {
    for (size_t i = 0; i < c.locations.size(); i++) {
        const int64_t level = static_cast<int64_t>(i) / 2 / c.P % c.L;
        const auto extent = static_cast<double>(c.shapes[2 * level + (i % 2 == 0 ? 1 : 0)]);
        const double position = c.locations[i] * extent - 0.5, cell = std::floor(position);
        // Rounding for storage moves it by less than what is left on either side (bfloat16: 1/512 of up to 50 cells).
        c.locations[i] = nearest(c.type, (cell + 0.2 + 0.6 * (position - cell) + 0.5) / extent);
    }
}

MsdaBackwardLayout MsdaBackwardLayout::guarded(Guard guard) {
    MsdaBackwardLayout layout;
    for (Layout *each : layout.all()) {
        each->guard = guard;
    }
    return layout;
}

std::vector<Layout *> MsdaBackwardLayout::all() {
    return {&value, &shapes, &starts, &locations, &weights, &grad_output, &grad_value, &grad_locations, &grad_weights};
}

std::vector<Wanted> all_subsets() {
    std::vector<Wanted> subsets;
    for (int i = 0; i < 8; i++) {
        subsets.push_back({(i & 1) != 0, (i & 2) != 0, (i & 4) != 0});
    }
    return subsets;
}

MsdaBackwardTensors::MsdaBackwardTensors(const MsdaBackwardCase &c, const MsdaBackwardLayout &layout)
    : type(c.type),
      value(dtype_of(type), c.value_shape(), layout.value),
      shapes(index_dtype(layout), c.shapes_shape(), layout.shapes),
      starts(index_dtype(layout), c.starts_shape(), layout.starts),
      locations(dtype_of(type), c.locations_shape(), layout.locations),
      weights(dtype_of(type), c.weights_shape(), layout.weights),
      grad_output(dtype_of(type), layout.grad_by_head ? c.grad_by_head_shape() : c.grad_shape(), layout.grad_output),
      grad_value(dtype_of(type), c.value_shape(), layout.grad_value),
      grad_locations(dtype_of(type), c.locations_shape(), layout.grad_locations),
      grad_weights(dtype_of(type), c.weights_shape(), layout.grad_weights) {
    store_index(shapes, c.shapes, layout.index_bits);
    store_index(starts, c.starts, layout.index_bits);
    value.store_numbers(c.value);
    locations.store_numbers(c.locations);
    weights.store_numbers(c.weights);
    grad_output.store_numbers(c.grad_output);
    for (GuardedTensor *input : {&value, &shapes, &starts, &locations, &weights, &grad_output}) {
        input->make_read_only();
    }
}

deformkit_status MsdaBackwardTensors::call(const Wanted &wanted) {
    return deformkit_msda_backward(value.dl(), shapes.dl(), starts.dl(), locations.dl(), weights.dl(), grad_output.dl(),
                                   wanted.value ? grad_value.dl() : nullptr, wanted.locations ? grad_locations.dl() : nullptr,
                                   wanted.weights ? grad_weights.dl() : nullptr);
}

MsdaGradients MsdaBackwardTensors::gradients(const Wanted &wanted) const {
    MsdaGradients gradients;
    if (wanted.value) {
        gradients.value = grad_value.load_numbers();
    }
    if (wanted.locations) {
        gradients.locations = grad_locations.load_numbers();
    }
    if (wanted.weights) {
        gradients.weights = grad_weights.load_numbers();
    }
    return gradients;
}

std::vector<GuardedTensor *> MsdaBackwardTensors::all() {
    return {&value, &shapes, &starts, &locations, &weights, &grad_output, &grad_value, &grad_locations, &grad_weights};
}

MsdaBackwardCase as_stored(const MsdaBackwardCase &c, const MsdaBackwardLayout &layout) {
    const MsdaBackwardTensors tensors(c, layout);
    MsdaBackwardCase stored = c;
    stored.value = tensors.value.load_numbers();
    stored.locations = tensors.locations.load_numbers();
    stored.weights = tensors.weights.load_numbers();
    stored.grad_output = tensors.grad_output.load_numbers();
    return stored;
}

MsdaGradients run(const MsdaBackwardCase &c, const MsdaBackwardLayout &layout, const Wanted &wanted) {
    MsdaBackwardTensors tensors(c, layout);
    EXPECT_EQ(tensors.call(wanted), DEFORMKIT_OK) << deformkit_last_error();
    struct Output {
        const char *name;
        bool wanted;
        const GuardedTensor &tensor;
    };
    for (const Output &output : {Output{"grad_value", wanted.value, tensors.grad_value},
                                 {"grad_sampling_locations", wanted.locations, tensors.grad_locations},
                                 {"grad_attention_weights", wanted.weights, tensors.grad_weights}}) {
        if (output.wanted) {
            EXPECT_EQ(output.tensor.elements_in_poison(), 0) << "elements of " << output.name << " were not written";
            EXPECT_TRUE(output.tensor.surroundings_intact()) << "written beside or between the elements of " << output.name;
        } else {
            EXPECT_TRUE(output.tensor.all_poison()) << output.name << " was written, though not wanted";
        }
    }
    return tensors.gradients(wanted);
}

namespace {

/// Where in a tensor of that shape an element is.
std::string place(int64_t i, const std::vector<int64_t> &shape) {
    std::string text;
    for (size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) {
        text = std::to_string(i % shape[axis]) + (text.empty() ? "" : ", ") + text;
    }
    return "[" + text + "]";
}

}  // namespace

::testing::AssertionResult matches_reference(const MsdaBackwardCase &c, const MsdaGradients &gradients) {
    int64_t wrong = 0;
    ::testing::AssertionResult failure = ::testing::AssertionFailure();
    const auto slice = [](const std::vector<double> &all, int64_t b, int64_t batches) {
        const auto count = static_cast<int64_t>(all.size()) / batches;
        return std::vector<double>(all.begin() + b * count, all.begin() + (b + 1) * count);
    };
    // One batch element at a time: the reference of the largest model would take gigabytes.
    for (int64_t b = 0; b < c.B; b++) {
        const MsdaBackwardInputs one = {1,
                                        c.K,
                                        c.M,
                                        c.D,
                                        c.Q,
                                        c.L,
                                        c.P,
                                        slice(c.value, b, c.B),
                                        slice(c.locations, b, c.B),
                                        slice(c.weights, b, c.B),
                                        slice(c.grad_output, b, c.B),
                                        c.shapes,
                                        c.starts};
        const MsdaBackwardExpected expected = msda_backward_reference(one, c.type);
        const auto compare = [&](const char *name, const Expected &want, const std::vector<double> &got,
                                 const std::vector<int64_t> &shape) {
            if (got.empty()) {
                return;  // not wanted, or empty
            }
            const auto count = static_cast<int64_t>(want.value.size()), first = b * count;
            for (int64_t i = 0; i < count; i++) {
                if (!want.allows(i, got[first + i], c.type) && ++wrong <= 5) {
                    failure << name << place(first + i, shape) << " is " << got[first + i] << ", the reference "
                            << want.value[i] << ", the tolerance " << want.tolerance[i] << ", before rounding to storage"
                            << "\n";
                }
            }
        };
        compare("grad_value", expected.value, gradients.value, c.value_shape());
        compare("grad_sampling_locations", expected.locations, gradients.locations, c.locations_shape());
        compare("grad_attention_weights", expected.weights, gradients.weights, c.weights_shape());
    }
    return wrong == 0 ? ::testing::AssertionSuccess() : failure << wrong << " gradients are wrong";
}

::testing::AssertionResult is_substantial(const MsdaGradients &gradients, double some_cells, double some_samples) {
    const auto enough = [](const std::vector<double> &numbers, double share) {
        const auto zeros = std::count(numbers.begin(), numbers.end(), 0.0);
        return static_cast<double>(numbers.size() - zeros) > share * static_cast<double>(numbers.size());
    };
    if (!enough(gradients.value, some_cells)) {
        return ::testing::AssertionFailure() << "grad_value is zero nearly everywhere";
    }
    for (const std::vector<double> *each : {&gradients.locations, &gradients.weights}) {
        if (!enough(*each, some_samples)) {
            return ::testing::AssertionFailure() << "gradients of locations or weights are zero nearly everywhere";
        }
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult same_bits(const MsdaGradients &a, const MsdaGradients &b) {
    for (const auto &[name, member] : {std::pair("grad_value", &MsdaGradients::value),
                                       {"grad_sampling_locations", &MsdaGradients::locations},
                                       {"grad_attention_weights", &MsdaGradients::weights}}) {
        const ::testing::AssertionResult same = same_bits(a.*member, b.*member);
        if (!same) {
            return ::testing::AssertionFailure() << name << ": " << same.message();
        }
    }
    return ::testing::AssertionSuccess();
}

void BackwardVariantTest::SetUp() {
    ASSERT_EQ(deformkit_set_target(variant_.target.c_str()), DEFORMKIT_OK) << deformkit_last_error();
    const deformkit_status status = try_msda_backward(variant_.type());
    const Availability availability = availability_of(variant_.target);
    if (status == DEFORMKIT_NO_VARIANT && availability != Availability::kYes) {
        GTEST_SKIP() << "this machine lacks it: " << deformkit_last_error();
    }
    ASSERT_EQ(status, DEFORMKIT_OK) << deformkit_last_error();
    ASSERT_NE(availability, Availability::kNo) << "ran although this CPU lacks a feature that it needs";
    ASSERT_EQ(deformkit_last_variant(), variant_.name());
}

void BackwardVariantTest::TearDown() {
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

void for_each_msda_backward_variant(const std::string &suite, const std::string &name, const BackwardVariantTest::Body &body,
                                    const std::string &type) {
    for (const Variant &variant : all_variants()) {
        if (variant.op != "msda" || variant.pass != "backward_value" || (type != "" && variant.type_name != type)) {
            continue;
        }
        const std::string test = variant.name() + "/" + name;
        ::testing::RegisterTest(suite.c_str(), test.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                                [=]() -> BackwardVariantTest * { return new BackwardVariantTest(variant, body); });
    }
}

deformkit_status try_msda_backward(Type type) {
    MsdaBackwardCase c;
    c.type = type;
    c.B = c.K = c.M = c.D = c.Q = c.L = c.P = 1;
    c.value = {3}, c.shapes = {1, 1}, c.starts = {0}, c.locations = {0.25, 0.5}, c.weights = {2}, c.grad_output = {5};
    MsdaBackwardTensors tensors(c);
    const deformkit_status status = tensors.call();
    if (status == DEFORMKIT_OK) {
        // x = -0.25, y = 0: three quarters of the cell. On the line y = 0, either slope is right.
        const MsdaGradients gradients = tensors.gradients();
        EXPECT_EQ(gradients.value, (std::vector<double>{0.75 * 2 * 5}));
        EXPECT_EQ(gradients.weights, (std::vector<double>{0.75 * 3 * 5}));
        EXPECT_EQ(gradients.locations[0], 2 * 3 * 5);
        EXPECT_EQ(std::fabs(gradients.locations[1]), 0.75 * 2 * 3 * 5);
    } else {
        for (const GuardedTensor *output : tensors.outputs()) {
            EXPECT_TRUE(output->all_poison()) << "a refused call wrote something";
        }
    }
    return status;
}

}  // namespace deformkit::testing
