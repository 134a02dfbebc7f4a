#include "tests/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <stdexcept>

#include "tests/place.h"

namespace deformkit::testing {

namespace {

template <typename T>
void store_as(GuardedTensor &tensor, const std::vector<int64_t> &integers) {
    tensor.store(std::vector<T>(integers.begin(), integers.end()));
}

void store(GuardedTensor &tensor, const Operand &operand) {
    if (operand.is_number()) {
        tensor.store_numbers(operand.numbers);
        return;
    }
    switch (operand.dtype.bits) {
        case 8:
            return store_as<int8_t>(tensor, operand.integers);
        case 16:
            return store_as<int16_t>(tensor, operand.integers);
        case 32:
            return store_as<int32_t>(tensor, operand.integers);
        default:
            return store_as<int64_t>(tensor, operand.integers);
    }
}

/// Where in a tensor of that shape an element is.
std::string place(int64_t i, const std::vector<int64_t> &shape) {
    std::string text;
    for (size_t axis = shape.size(); axis-- > 0; i /= shape[axis]) {
        text = std::to_string(i % shape[axis]) + (text.empty() ? "" : ", ") + text;
    }
    return "[" + text + "]";
}

}  // namespace

std::vector<double> rounded(Type type, std::vector<double> numbers) {
    std::transform(numbers.begin(), numbers.end(), numbers.begin(), [=](double x) { return nearest(type, x); });
    return numbers;
}

std::vector<double> stored_numbers(const std::vector<float> &floats, Type type) {
    const double scale = type == Type::kF64 ? 1 - 0x1.23456789abcdp-25 : 1;
    std::vector<double> numbers(floats.size());
    std::transform(floats.begin(), floats.end(), numbers.begin(), [=](float x) { return nearest(type, x * scale); });
    return numbers;
}

std::vector<double> some_gradient(int64_t count, Type type, uint32_t seed) {
    std::minstd_rand random(seed + 1);
    std::vector<double> numbers(count);
    std::generate(numbers.begin(), numbers.end(), [&] { return nearest(type, static_cast<double>(random()) / (1 << 30) - 1); });
    return numbers;
}

Layouts guarded(Guard guard) {
    Layouts layouts;
    layouts.guard = guard;
    layouts.split = guard == Guard::kBefore;
    layouts.index_bits = guard == Guard::kBefore ? 32 : 64;
    return layouts;
}

Layouts random_layouts(const Problem &problem, uint32_t seed) {
    std::mt19937 random(seed);
    const auto one_in = [&](unsigned n) { return random() % n == 0; };
    Layouts layouts;
    layouts.index_bits = one_in(2) ? 32 : 64;
    layouts.split = one_in(2);
    for (const Operand &operand : problem.operands()) {
        Layout &layout = layouts.of[operand.name];
        layout.guard = one_in(2) ? Guard::kAfter : Guard::kBefore;
        layout.byte_offset = one_in(4) ? 8 * static_cast<int64_t>(random() % 600) : 0;
        if (one_in(3)) {
            continue;
        }
        const bool split = layouts.split && !operand.split_shape.empty();
        const auto axes = static_cast<int>(split ? operand.split_shape.size() : operand.shape.size());
        for (int axis = 0; axis < axes; axis++) {
            layout.order.push_back(axis);
            layout.step.push_back(one_in(5) ? 2 + random() % 2 : 1);
            layout.pad.push_back(one_in(5) ? random() % 40 : 0);
            layout.reversed.push_back(one_in(5));
            layout.expanded.push_back(one_in(10) && !operand.output && operand.is_number());
        }
        if (one_in(2)) {
            std::shuffle(layout.order.begin(), layout.order.end(), random);
        }
    }
    return layouts;
}

ProblemTensors::ProblemTensors(const Problem &problem, const Layouts &layouts)
    : operands(problem.operands()), problem_(&problem) {
    for (Operand &operand : operands) {
        if (operand.index) {
            operand.dtype.bits = static_cast<uint8_t>(layouts.index_bits);
        }
        if (layouts.split && !operand.split_shape.empty()) {
            operand.shape = operand.split_shape;
        }
        Layout dense;
        dense.guard = layouts.guard;
        const auto named = layouts.of.find(operand.name);
        tensors.push_back(
            std::make_unique<GuardedTensor>(operand.dtype, operand.shape, named == layouts.of.end() ? dense : named->second));
        arguments.push_back(layouts.left_out.count(operand.name) > 0 ? nullptr : tensors.back()->dl());
        if (!operand.output) {
            store(*tensors.back(), operand);
            tensors.back()->make_read_only();
        }
    }
}

deformkit_status ProblemTensors::call() const {
    if (current_place() == Place::kHost) {
        return problem_->call(arguments);  // without memory of its own, for tests of calls that get none
    }
    std::vector<bool> outputs;
    for (const Operand &operand : operands) {
        outputs.push_back(operand.output);
    }
    return call_in_place([&](const std::vector<DLTensor *> &tensors) { return problem_->call(tensors); }, arguments, outputs);
}

GuardedTensor &ProblemTensors::operator[](const std::string &name) const {
    for (size_t i = 0; i < operands.size(); i++) {
        if (operands[i].name == name) {
            return *tensors[i];
        }
    }
    throw std::invalid_argument("no operand " + name);
}

Outputs ProblemTensors::outputs() const {
    Outputs outputs;
    for (size_t i = 0; i < operands.size(); i++) {
        if (operands[i].output) {
            outputs.push_back(arguments[i] == nullptr ? std::vector<double>() : tensors[i]->load_numbers());
        }
    }
    return outputs;
}

bool ProblemTensors::outputs_untouched() const {
    for (size_t i = 0; i < operands.size(); i++) {
        if (operands[i].output && !tensors[i]->all_poison()) {
            return false;
        }
    }
    return true;
}

Outputs outputs_of(const ProblemTensors &t) {
    for (size_t i = 0; i < t.operands.size(); i++) {
        const std::string &name = t.operands[i].name;
        if (!t.operands[i].output) {
            continue;
        }
        if (t.arguments[i] == nullptr) {
            EXPECT_TRUE(t.tensors[i]->all_poison()) << name << " was written, though not wanted";
        } else {
            EXPECT_EQ(t.tensors[i]->elements_in_poison(), 0) << name << ": elements were not written";
            EXPECT_TRUE(t.tensors[i]->surroundings_intact()) << name << ": something was written beside its elements";
        }
    }
    return t.outputs();
}

Outputs run(const Problem &problem, const Layouts &layouts) {
    const ProblemTensors t(problem, layouts);
    EXPECT_EQ(t.call(), DEFORMKIT_OK) << deformkit_last_error();
    return outputs_of(t);
}

::testing::AssertionResult matches(const Problem &problem, const Outputs &outputs, const std::vector<Expected> &expected) {
    ::testing::AssertionResult failure = ::testing::AssertionFailure();
    int64_t wrong = 0;
    size_t o = 0;
    for (const Operand &operand : problem.operands()) {
        if (!operand.output) {
            continue;
        }
        const std::vector<double> &got = outputs.at(o);
        const Expected &want = expected.at(o++);
        if (got.empty()) {
            continue;
        }
        if (got.size() != want.values.size()) {
            return ::testing::AssertionFailure() << operand.name << " has " << got.size() << " elements";
        }
        for (int64_t i = 0; i < static_cast<int64_t>(got.size()); i++) {
            if (!want.allows(i, got[i], problem.type()) && ++wrong <= 5) {
                failure << operand.name << place(i, operand.shape) << " is " << got[i] << ", the reference " << want.values[i]
                        << ", the tolerance " << want.tolerances[i] << ", before rounding to the type\n";
            }
        }
    }
    return wrong == 0 ? ::testing::AssertionSuccess() : failure << wrong << " elements are wrong";
}

::testing::AssertionResult matches(const Problem &problem, const Outputs &outputs) {
    return matches(problem, outputs, problem.expected());
}

::testing::AssertionResult same_bits(const std::vector<double> &a, const std::vector<double> &b) {
    if (a.size() != b.size()) {
        return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " elements";
    }
    for (size_t i = 0; i < a.size(); i++) {
        if (std::memcmp(&a[i], &b[i], sizeof(a[i])) != 0) {
            return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
        }
    }
    return ::testing::AssertionSuccess();
}

namespace {

/// A sum of thousands in float32, or one that was rounded to bfloat16.
::testing::AssertionResult same_sums(const std::vector<double> &a, const std::vector<double> &b) {
    double largest = 0;
    for (const double x : a) {
        largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
    }
    for (size_t i = 0; i < a.size(); i++) {
        if (!(std::fabs(a[i] - b[i]) <= 0x1p-7 * largest) && (std::isfinite(a[i]) || std::isfinite(b[i]))) {
            return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
        }
    }
    return ::testing::AssertionSuccess();
}

}  // namespace

::testing::AssertionResult same_bits(const Outputs &a, const Outputs &b) {
    if (a.size() != b.size()) {
        return ::testing::AssertionFailure() << a.size() << " and " << b.size() << " outputs";
    }
    for (size_t o = 0; o < a.size(); o++) {
        if (a[o].empty() || b[o].empty()) {
            continue;
        }
        const bool of_sums = sums_vary() && o == 0 && a.size() > 1;
        if (const auto same = of_sums ? same_sums(a[o], b[o]) : same_bits(a[o], b[o]); !same) {
            return ::testing::AssertionFailure() << "output " << o << ", " << same.message();
        }
    }
    return ::testing::AssertionSuccess();
}

Substance usual_substance(const Problem &problem) {
    return problem.pass() == Pass::kForward ? Substance{0.5, 0} : Substance{0.05, 0.4};
}

::testing::AssertionResult is_substantial(const Outputs &outputs, const Substance &least) {
    for (size_t o = 0; o < outputs.size(); o++) {
        const auto size = static_cast<double>(outputs[o].size());
        const auto zeros = std::count(outputs[o].begin(), outputs[o].end(), 0.0);
        if (size - static_cast<double>(zeros) <= (o == 0 ? least.first : least.others) * size) {
            return ::testing::AssertionFailure()
                   << "of output " << o << ", " << zeros << " of " << size << " elements are zero";
        }
    }
    return ::testing::AssertionSuccess();
}

::testing::AssertionResult all_zero(const Outputs &outputs) {
    for (const std::vector<double> &output : outputs) {
        if (const auto same = same_bits(output, std::vector<double>(output.size(), 0.0)); !same) {
            return same;
        }
    }
    return ::testing::AssertionSuccess();
}

int64_t count_nonfinite(const Outputs &outputs) {
    int64_t count = 0;
    for (const std::vector<double> &output : outputs) {
        count += std::count_if(output.begin(), output.end(), [](double x) { return !std::isfinite(x); });
    }
    return count;
}

::testing::AssertionResult ran(const Variant &variant) {
    const std::string kernel = deformkit_last_variant();
    return variant.is_served_by(kernel) ? ::testing::AssertionSuccess()
                                        : ::testing::AssertionFailure() << "\"" << kernel << "\" ran for " << variant.name();
}

namespace {

/// Of the targets that serve the variant's pass and type, those whose CPU features are here, best first.
std::vector<std::string> available_targets(const Variant &variant) {
    std::vector<std::string> targets;
    for (const Variant &other : all_variants()) {
        if (other.op == variant.op && other.pass == variant.pass && other.type_name == variant.type_name &&
            availability_of(other.target) == Availability::kYes) {
            targets.push_back(other.target);
        }
    }
    return targets;
}

}  // namespace

bool is_best(const Variant &variant) {
    const std::vector<std::string> targets = available_targets(variant);
    return !targets.empty() && variant.target == targets.front();
}

std::vector<Variant> rows_of(const std::string &op, Pass pass, Rows rows) {
    const auto stands_for_the_host = [=](const Variant &variant) {
        const std::vector<std::string> targets = available_targets(variant);
        const bool portable = variant.type() == Type::kF32 && !targets.empty() && variant.target == targets.back();
        const bool of_device = availability_of(variant.target) == Availability::kAsk;
        return portable || is_best(variant) || (of_device && rows == Rows::kHost && variant.type() == Type::kF32);
    };
    std::vector<Variant> found;
    for (const Variant &variant : all_variants()) {
        if (variant.op == op && variant.pass == (pass == Pass::kForward ? "forward" : "backward_value") &&
            (rows != Rows::kF64 || variant.type() == Type::kF64) &&
            ((rows != Rows::kHost && rows != Rows::kThreads) || stands_for_the_host(variant)) &&
            (rows != Rows::kDevices || availability_of(variant.target) == Availability::kAsk) &&
            (rows != Rows::kBestF32 || (variant.type() == Type::kF32 && is_best(variant)))) {
            found.push_back(variant);
        }
    }
    return found;
}

}  // namespace deformkit::testing
