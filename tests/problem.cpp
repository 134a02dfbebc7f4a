#include "tests/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "tests/support/reference.h"

namespace deformkit::testing {

namespace {

uint64_t bits_of(double number) {
    uint64_t bits;
    std::memcpy(&bits, &number, sizeof(bits));
    return bits;
}

template <typename T>
void store_as(GuardedTensor &tensor, const std::vector<int64_t> &integers) {
    tensor.store(std::vector<T>(integers.begin(), integers.end()));
}

void store(GuardedTensor &tensor, const Operand &operand) {
    if (operand.dtype.code != kDLInt) {
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

}  // namespace

Layouts all_guarded(const Problem &problem, Guard guard) {
    Layouts layouts;
    layouts.of.resize(problem.operands().size());
    for (Layout &layout : layouts.of) {
        layout.guard = guard;
    }
    return layouts;
}

Layouts random_layouts(const Problem &problem, uint32_t seed) {
    std::mt19937 random(seed);
    const auto one_in = [&](unsigned n) { return random() % n == 0; };
    Layouts layouts;
    layouts.index_bits = one_in(2) ? 32 : 64;
    for (const Operand &operand : problem.operands()) {
        Layout layout;
        layout.guard = one_in(2) ? Guard::kAfter : Guard::kBefore;
        layout.byte_offset = one_in(4) ? 8 * static_cast<int64_t>(random() % 600) : 0;
        if (!one_in(3)) {
            for (int axis = 0; axis < static_cast<int>(operand.shape.size()); axis++) {
                layout.order.push_back(axis);
                layout.step.push_back(one_in(5) ? 2 + random() % 2 : 1);
                layout.pad.push_back(one_in(5) ? random() % 40 : 0);
                layout.reversed.push_back(one_in(5));
            }
            if (one_in(2)) {
                std::shuffle(layout.order.begin(), layout.order.end(), random);
            }
        }
        layouts.of.push_back(layout);
    }
    return layouts;
}

ProblemTensors::ProblemTensors(const Problem &problem, const Layouts &layouts)
    : operands(problem.operands()), problem_(problem) {
    size_t outputs = 0;
    for (size_t i = 0; i < operands.size(); i++) {
        Operand &operand = operands[i];
        if (operand.index) {
            operand.dtype.bits = static_cast<uint8_t>(layouts.index_bits);
        }
        const Layout layout = layouts.of.empty() ? Layout() : layouts.of[i];
        tensors.push_back(std::make_unique<GuardedTensor>(operand.dtype, operand.shape, layout));
        arguments.push_back(tensors.back()->dl());
        if (!operand.output) {
            store(*tensors.back(), operand);
            tensors.back()->make_read_only();
        } else if (outputs++ < layouts.left_out.size() && layouts.left_out[outputs - 1]) {
            arguments.back() = nullptr;
        }
    }
}

Outputs run(const Problem &problem, const Layouts &layouts) {
    const ProblemTensors t(problem, layouts);
    EXPECT_EQ(t.call(), DEFORMKIT_OK) << deformkit_last_error();
    Outputs outputs;
    for (size_t i = 0; i < t.operands.size(); i++) {
        if (!t.operands[i].output) {
            continue;
        }
        if (t.arguments[i] == nullptr) {
            EXPECT_TRUE(t.tensors[i]->all_poison()) << t.operands[i].name;
            outputs.emplace_back();
            continue;
        }
        EXPECT_EQ(t.tensors[i]->elements_in_poison(), 0) << t.operands[i].name << ": elements were not written";
        EXPECT_TRUE(t.tensors[i]->surroundings_intact()) << t.operands[i].name << ": something was written beside its elements";
        outputs.push_back(t.tensors[i]->load_numbers());
    }
    return outputs;
}

::testing::AssertionResult matches(const Problem &problem, const Outputs &outputs, const std::vector<Expected> &expected) {
    ::testing::AssertionResult failure = ::testing::AssertionFailure();
    int64_t wrong = 0;
    std::vector<std::string> names;
    for (const Operand &operand : problem.operands()) {
        if (operand.output) {
            names.push_back(operand.name);
        }
    }
    for (size_t o = 0; o < outputs.size(); o++) {
        if (outputs[o].empty()) {
            continue;
        }
        if (outputs[o].size() != expected[o].values.size()) {
            return ::testing::AssertionFailure() << names[o] << " has " << outputs[o].size() << " elements";
        }
        for (size_t i = 0; i < outputs[o].size(); i++) {
            if (!agrees(problem.type(), outputs[o][i], expected[o].values[i], expected[o].tolerances[i]) && ++wrong <= 5) {
                failure << names[o] << "[" << i << "] is " << outputs[o][i] << ", the reference " << expected[o].values[i]
                        << ", the tolerance " << expected[o].tolerances[i] << "\n";
            }
        }
    }
    return wrong == 0 ? ::testing::AssertionSuccess() : failure << wrong << " elements are wrong";
}

::testing::AssertionResult same_bits(const Outputs &a, const Outputs &b) {
    for (size_t o = 0; o < a.size(); o++) {
        if (a[o].empty() || b[o].empty()) {
            continue;  // left out
        }
        for (size_t i = 0; i < a[o].size(); i++) {
            if (bits_of(a[o][i]) != bits_of(b[o][i])) {
                return ::testing::AssertionFailure()
                       << "output " << o << ", element " << i << ": " << a[o][i] << " and " << b[o][i];
            }
        }
    }
    return ::testing::AssertionSuccess();
}

bool holds_anything(const std::vector<double> &output) {
    return std::any_of(output.begin(), output.end(), [](double x) { return x != 0; });
}

void check_against_reference(const Problem &problem, bool substantial) {
    const std::vector<Expected> expected = problem.expected();
    for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
        Layouts layouts = all_guarded(problem, guard);
        layouts.index_bits = guard == Guard::kAfter ? 64 : 32;
        const Outputs outputs = run(problem, layouts);
        EXPECT_TRUE(matches(problem, outputs, expected));
        for (const std::vector<double> &output : outputs) {
            EXPECT_EQ(holds_anything(output), substantial);
        }
    }
}

void check_strides(const Problem &problem, int rounds) {
    const Outputs dense = run(problem);
    EXPECT_TRUE(matches(problem, dense, problem.expected()));
    for (int round = 0; round < rounds; round++) {
        SCOPED_TRACE(round);
        EXPECT_TRUE(same_bits(run(problem, random_layouts(problem, round)), dense));
    }
}

void check_threads(const Problem &problem) {
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    const Outputs alone = run(problem);
    EXPECT_TRUE(matches(problem, alone, problem.expected()));
    for (int threads : {1, 2, 3, 7, 0}) {
        SCOPED_TRACE(threads);
        ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        EXPECT_TRUE(same_bits(run(problem), alone));
    }
    ASSERT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

void check_subsets(const Problem &problem) {
    const Outputs all = run(problem);
    for (unsigned subset = 0; subset < 1u << all.size(); subset++) {
        Layouts layouts;
        for (size_t o = 0; o < all.size(); o++) {
            layouts.left_out.push_back(subset >> o & 1);
        }
        EXPECT_TRUE(same_bits(run(problem, layouts), all)) << subset;
    }
}

void check_refusals(const Problem &problem, const std::vector<std::pair<int, int>> &free_extents, bool outputs_optional) {
    ProblemTensors t(problem);
    const auto expect_refused = [&](deformkit_status expected, const std::string &name) {
        EXPECT_EQ(t.call(), expected) << deformkit_last_error();
        EXPECT_NE(std::string(deformkit_last_error()).find(name), std::string::npos) << deformkit_last_error();
        for (size_t i = 0; i < t.operands.size(); i++) {
            EXPECT_TRUE(!t.operands[i].output || t.tensors[i]->all_poison())
                << "a refused call wrote to " << t.operands[i].name;
        }
    };
    for (size_t i = 0; i < t.operands.size(); i++) {
        const Operand &operand = t.operands[i];
        SCOPED_TRACE(operand.name);
        DLTensor *tensor = t.arguments[i];
        const DLTensor before = *tensor;
        if (!(operand.output && outputs_optional)) {
            t.arguments[i] = nullptr;
            expect_refused(DEFORMKIT_NULL_ARGUMENT, operand.name);
            t.arguments[i] = tensor;
        }
        tensor->data = nullptr;
        expect_refused(DEFORMKIT_NULL_ARGUMENT, operand.name);
        *tensor = before;
        tensor->shape = nullptr;
        expect_refused(DEFORMKIT_NULL_ARGUMENT, operand.name);
        *tensor = before;
        tensor->device = {kDLCUDA, 0};
        expect_refused(DEFORMKIT_WRONG_DEVICE, operand.name);
        *tensor = before;
        std::vector<DLDataType> wrong = {{kDLUInt, 32, 1}, {kDLComplex, 64, 1}, {kDLFloat, 32, 2}, {kDLFloat, 8, 1}};
        if (i == 0) {  // indices, and locations in cells, may be integers
            wrong.insert(wrong.end(), {{kDLInt, 8, 1}, {kDLInt, 32, 1}, {kDLInt, 64, 1}, {kDLUInt, 8, 1}});
        }
        for (const DLDataType dtype : wrong) {
            tensor->dtype = dtype;
            expect_refused(DEFORMKIT_WRONG_DTYPE, operand.name);
        }
        *tensor = before;
        tensor->ndim = before.ndim - 1;
        expect_refused(DEFORMKIT_WRONG_SHAPE, operand.name);
        *tensor = before;
        for (int axis = 0; axis < before.ndim; axis++) {
            SCOPED_TRACE(axis);
            const int64_t extent = before.shape[axis];
            before.shape[axis] = -3;
            expect_refused(DEFORMKIT_WRONG_SHAPE, operand.name);
            if (std::find(free_extents.begin(), free_extents.end(), std::pair(static_cast<int>(i), axis)) ==
                free_extents.end()) {
                before.shape[axis] = extent + 1;
                expect_refused(DEFORMKIT_WRONG_SHAPE, "");
            }
            before.shape[axis] = extent;
        }
        if (operand.output) {
            // On top of itself, and on top of an input.
            std::vector<int64_t> strides(before.ndim, 0);
            tensor->strides = strides.data();
            if (count_of(operand.shape) > 1) {
                expect_refused(DEFORMKIT_OVERLAPPING_OUTPUT, operand.name);
            }
            *tensor = before;
            tensor->data = t.arguments[0]->data;
            expect_refused(DEFORMKIT_OVERLAPPING_OUTPUT, operand.name);
            *tensor = before;
        }
    }
    EXPECT_EQ(t.call(), DEFORMKIT_OK) << deformkit_last_error();
}

}  // namespace deformkit::testing
