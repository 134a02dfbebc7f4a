#include "tests/checks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

namespace deformkit::testing {

namespace {

struct NamedLayout {
    std::string name;
    Layout layout;
};

/// What can be done to a tensor of so many axes: one thing at a time.
std::vector<NamedLayout> layouts_of(int axes, bool expandable) {
    std::vector<NamedLayout> all;
    const auto add = [&](const std::string &name, auto &&change) {
        all.push_back({name, {}});
        change(all.back().layout);
    };
    const std::vector<int64_t> ones(axes, 1), zeros(axes, 0);
    std::vector<int> in_order(axes);
    std::iota(in_order.begin(), in_order.end(), 0);
    for (int axis = 0; axis < axes; axis++) {
        const std::string name = " axis " + std::to_string(axis);
        add("step 2," + name, [&](Layout &l) { l.step = ones, l.step[axis] = 2; });
        add("pad 3," + name, [&](Layout &l) { l.pad = zeros, l.pad[axis] = 3; });
        add("negative" + name, [&](Layout &l) { l.reversed.assign(axes, false), l.reversed[axis] = true; });
        if (expandable) {
            add("expanded" + name, [&](Layout &l) { l.expanded.assign(axes, false), l.expanded[axis] = true; });
        }
        if (axis + 1 < axes) {
            add("exchanged with the next," + name,
                [&](Layout &l) { l.order = in_order, std::swap(l.order[axis], l.order[axis + 1]); });
        }
    }
    if (axes > 1) {
        add("transposed", [&](Layout &l) { l.order.assign(in_order.rbegin(), in_order.rend()); });
        add("last axis first", [&](Layout &l) {
            l.order = in_order;
            std::rotate(l.order.begin(), l.order.end() - 1, l.order.end());
        });
        add("first axis last, negative, padded", [&](Layout &l) {
            l.order = in_order;
            std::rotate(l.order.begin(), l.order.begin() + 1, l.order.end());
            l.reversed.assign(axes, true);
            l.pad = ones;
        });
    }
    add("all negative", [&](Layout &l) { l.reversed.assign(axes, true); });
    if (expandable) {
        add("one number", [&](Layout &l) { l.expanded.assign(axes, true); });
        add("all but the last axis expanded", [&](Layout &l) { l.expanded.assign(axes, true), l.expanded.back() = false; });
    }
    add("byte offset", [](Layout &l) { l.byte_offset = 72; });
    add("NULL strides", [](Layout &l) { l.null_strides = true; });
    return all;
}

/// A dense tensor's elements move to another place in memory, of which there has to be enough.
void move_to(GuardedTensor &tensor, const std::vector<int64_t> &strides, unsigned char *place) {
    DLTensor *dl = tensor.dl();
    const int64_t bytes = dl->dtype.bits / 8;
    const auto *from = static_cast<const unsigned char *>(dl->data) + dl->byte_offset;
    for_each_offset(tensor.shape(), strides, [&](int64_t offset) {
        std::copy_n(from, bytes, place + offset * bytes);
        from += bytes;
    });
    std::copy(strides.begin(), strides.end(), dl->strides);
    dl->data = place;
    dl->byte_offset = 0;
}

/// The elements of an output that was moved.
std::vector<double> load(const GuardedTensor &tensor, const std::vector<int64_t> &strides, const unsigned char *place) {
    std::vector<double> numbers;
    const Type type = type_of(const_cast<GuardedTensor &>(tensor).dl()->dtype);
    for_each_offset(tensor.shape(), strides, [&](int64_t offset) {
        numbers.push_back(decode(type, place + offset * static_cast<int64_t>(size_of(type))));
    });
    return numbers;
}

/// Rows of memory may begin anywhere: all numbers of a call at so many elements from a proper address.
void check_alignment(const Problem &problem, const Outputs &dense) {
    for (int64_t shift : {1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 23, 31}) {
        SCOPED_TRACE(::testing::Message() << "shifted by " << shift << " elements");
        const ProblemTensors t(problem);
        std::vector<std::vector<double>> memory;  // aligned like its elements, and more
        Outputs outputs;
        const auto place = [&](size_t i) {
            const auto bytes = static_cast<int64_t>(size_of(type_of(t.operands[i].dtype)));
            return reinterpret_cast<unsigned char *>(memory[i].data()) + shift * bytes;
        };
        for (size_t i = 0; i < t.operands.size(); i++) {
            memory.emplace_back(count_of(t.operands[i].shape) + 40, std::nan(""));
            if (t.operands[i].is_number()) {
                move_to(*t.tensors[i], dense_strides(t.operands[i].shape), place(i));
            }
        }
        ASSERT_EQ(t.call(), DEFORMKIT_OK) << deformkit_last_error();
        for (size_t i = 0; i < t.operands.size(); i++) {
            if (t.operands[i].output) {
                outputs.push_back(load(*t.tensors[i], dense_strides(t.operands[i].shape), place(i)));
            }
        }
        EXPECT_TRUE(same_bits(outputs, dense));
    }
}

/// Strides of one problem, which differ from the dense ones where elements share memory.
void check_layouts(const Problem &problem, const Layouts &layouts, const Outputs &dense) {
    const bool shared = std::any_of(layouts.of.begin(), layouts.of.end(), [](const auto &named) {
        const std::vector<bool> &expanded = named.second.expanded;
        return std::count(expanded.begin(), expanded.end(), true) > 0;
    });
    if (!shared) {
        EXPECT_TRUE(same_bits(run(problem, layouts), dense));
        return;
    }
    const std::unique_ptr<Problem> stored = problem.clone();
    const ProblemTensors tensors(problem, layouts);
    for (const auto &[name, numbers] : stored->numbers()) {
        *numbers = tensors[name].load_numbers();
    }
    const Outputs outputs = run(*stored);
    EXPECT_TRUE(matches(*stored, outputs));
    EXPECT_TRUE(same_bits(run(problem, layouts), outputs));
}

}  // namespace

void check_against_reference(const Problem &problem, const Substance &least) {
    const std::vector<Expected> expected = problem.expected();
    for (Guard guard : {Guard::kAfter, Guard::kBefore}) {
        SCOPED_TRACE(guard == Guard::kAfter ? "guard after, int64" : "guard before, int32, split axes");
        const Outputs outputs = run(problem, guarded(guard));
        EXPECT_TRUE(matches(problem, outputs, expected));
        if (problem.is_trivial()) {
            EXPECT_TRUE(all_zero(outputs));
            EXPECT_STREQ(deformkit_last_variant(), "");
        } else {
            EXPECT_TRUE(is_substantial(outputs, least));
        }
    }
}

void check_against_reference(const Problem &problem) {
    check_against_reference(problem, usual_substance(problem));
}

void check_in_order(const Problem &problem) {
    ASSERT_EQ(deformkit_set_deterministic(1), DEFORMKIT_OK);
    const Outputs first = run(problem);
    const std::string kernel = deformkit_last_variant();
    const Outputs second = run(problem);
    ASSERT_EQ(deformkit_set_deterministic(0), DEFORMKIT_OK);
    EXPECT_NE(kernel.find("_in_order_"), std::string::npos) << kernel;
    EXPECT_TRUE(matches(problem, first));
    EXPECT_TRUE(is_substantial(first, {0.05, 0.05}));
    for (size_t o = 0; o < first.size(); o++) {
        EXPECT_TRUE(same_bits(first[o], second[o])) << "output " << o;
    }
}

void check_strides(const Problem &problem) {
    // Of a device, which copies whatever is not as it wants it, some are enough.
    int layout = 0;
    const auto has_turn = [&] { return !on_device() || layout++ % 5 == 0; };
    const Outputs dense = run(problem);
    EXPECT_TRUE(matches(problem, dense));
    EXPECT_TRUE(is_substantial(dense, {0, 0}));
    for (const bool split : {false, true}) {
        for (const Operand &operand : problem.operands()) {
            if (split && operand.split_shape.empty()) {
                continue;
            }
            const auto axes = static_cast<int>(split ? operand.split_shape.size() : operand.shape.size());
            for (const NamedLayout &named : layouts_of(axes, operand.is_number() && !operand.output)) {
                SCOPED_TRACE(operand.name + (split ? ", split: " : ": ") + named.name);
                if (!has_turn()) {
                    continue;
                }
                Layouts layouts;
                layouts.split = split;
                layouts.of[operand.name] = named.layout;
                check_layouts(problem, layouts, dense);
            }
        }
    }
    for (uint32_t seed = 0; seed < (on_device() ? 4 : 12); seed++) {
        SCOPED_TRACE(::testing::Message() << "random layouts, seed " << seed);
        check_layouts(problem, random_layouts(problem, seed), dense);
    }
    check_alignment(problem, dense);
}

void check_threads(const Problem &problem, const Substance &least) {
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    const Outputs alone = run(problem);
    EXPECT_TRUE(matches(problem, alone));
    EXPECT_TRUE(is_substantial(alone, least));
    for (int threads : {1, 2, 3, 7, 64, 0}) {
        SCOPED_TRACE(::testing::Message() << threads << " threads");
        ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        for (int repeat = 0; repeat < 2; repeat++) {
            EXPECT_TRUE(same_bits(run(problem), alone));
        }
    }
    ASSERT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

void check_nans(const Problem &problem) {
    const std::unique_ptr<Problem> planted = problem.clone();
    std::mt19937 random(1);
    for (const auto &[name, numbers] : planted->numbers()) {
        for (double &number : *numbers) {
            if (name.find("locations") == std::string::npos && random() % 4 == 0) {
                // The payload is in bits that every type has.
                const uint64_t sign = random() % 2, payload = random() % 32;
                const uint64_t bits = sign << 63 | uint64_t{0x7ff8} << 48 | payload << 45;
                std::memcpy(&number, &bits, sizeof(number));
            }
        }
    }
    ASSERT_EQ(deformkit_set_num_threads(1), DEFORMKIT_OK);
    const auto run_planted = [&] {
        Outputs outputs = run(*planted);
        for (std::vector<double> &output : outputs) {
            std::replace_if(
                output.begin(), output.end(), [](double x) { return std::isnan(x); }, std::nan(""));
        }
        return outputs;
    };
    const Outputs alone = run_planted();
    for (int threads : {2, 3, 4, 16}) {
        SCOPED_TRACE(::testing::Message() << threads << " threads");
        ASSERT_EQ(deformkit_set_num_threads(threads), DEFORMKIT_OK);
        EXPECT_TRUE(same_bits(run_planted(), alone));
    }
    ASSERT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

void check_callers(const std::vector<std::unique_ptr<Problem>> &problems, const Variant &variant) {
    std::vector<Outputs> expected;
    for (const auto &problem : problems) {
        expected.push_back(run(*problem));
        EXPECT_TRUE(matches(*problem, expected.back()));
    }
    std::vector<std::string> complaints(problems.size());
    std::vector<std::thread> callers;
    for (size_t i = 0; i < problems.size(); i++) {
        callers.emplace_back([&, i] {
            std::string &complaint = complaints[i];
            if (*deformkit_last_error() != '\0' || *deformkit_last_variant() != '\0') {
                complaint = "a new thread knows of other threads' calls";
            }
            for (int repeat = 0; repeat < 10 && complaint.empty(); repeat++) {
                const ProblemTensors tensors(*problems[i]);
                if (tensors.call() != DEFORMKIT_OK) {
                    complaint = deformkit_last_error();
                } else if (!same_bits(tensors.outputs(), expected[i])) {
                    complaint = "another result than alone";
                } else if (const auto own = ran(variant); !own) {
                    complaint = own.message();
                }
                // An odd one refuses in between: its message must be its own.
                tensors.arguments[0]->ndim--;
                if (i % 2 == 1 && (tensors.call() != DEFORMKIT_WRONG_SHAPE || *deformkit_last_error() == '\0')) {
                    complaint = "a wrong call was not refused";
                }
            }
            if (i % 2 == 0 && complaint.empty() && *deformkit_last_error() != '\0') {
                complaint = std::string("another thread's error: ") + deformkit_last_error();
            }
        });
    }
    for (std::thread &caller : callers) {
        caller.join();
    }
    for (const std::string &complaint : complaints) {
        EXPECT_EQ(complaint, "");
    }
}

void check_subsets(const Problem &problem, const Variant &variant) {
    const Outputs all = run(problem);
    std::vector<std::string> names;
    for (const Operand &operand : problem.operands()) {
        if (operand.output) {
            names.push_back(operand.name);
        }
    }
    for (unsigned subset = 0; subset < 1u << all.size(); subset++) {
        Layouts layouts;
        Outputs expected = all;
        for (size_t o = 0; o < all.size(); o++) {
            if (subset >> o & 1) {
                layouts.left_out.insert(names[o]);
                expected[o].clear();
            }
        }
        SCOPED_TRACE(::testing::Message() << layouts.left_out.size() << " left out, subset " << subset);
        const Outputs outputs = run(problem, layouts);
        EXPECT_TRUE(same_bits(outputs, expected));
        const std::string kernel = deformkit_last_variant();
        if (problem.is_trivial() || layouts.left_out.size() == all.size()) {
            EXPECT_EQ(kernel, "") << "no kernel is needed";
        } else if (layouts.left_out.count(names[0]) == 0) {
            EXPECT_TRUE(ran(variant));
        } else {
            EXPECT_EQ(kernel, variant.op + "_backward_samples_" + variant.type_name + "_" + variant.target);
        }
    }
}

::testing::AssertionResult others_unchanged(const Outputs &now, const Outputs &before) {
    Outputs expected = now;
    for (size_t o = 0; o < now.size(); o++) {
        for (size_t i = 0; i < now[o].size(); i++) {
            if (std::isfinite(now[o][i])) {
                expected[o][i] = before[o][i];
            }
        }
    }
    return same_bits(now, expected);
}

namespace {

/// A proper call, to be spoilt.
class Refusals {
public:
    explicit Refusals(const Problem &problem) : t(problem) {}

    void expect(deformkit_status expected, const std::vector<std::string> &words) const {
        EXPECT_EQ(t.call(), expected) << deformkit_last_error();
        EXPECT_TRUE(t.outputs_untouched()) << "a refused call wrote something";
        const std::string message = deformkit_last_error();
        for (const std::string &word : words) {
            EXPECT_NE(message.find(word), std::string::npos) << "no \"" << word << "\" in: " << message;
        }
    }

    void null(size_t i, bool optional) {
        const std::string &name = t.operands[i].name;
        DLTensor *tensor = t.arguments[i];
        const DLTensor before = *tensor;
        if (!optional) {
            t.arguments[i] = nullptr;
            expect(DEFORMKIT_NULL_ARGUMENT, {name});
            t.arguments[i] = tensor;
        }
        tensor->data = nullptr;
        expect(DEFORMKIT_NULL_ARGUMENT, {name});
        *tensor = before;
        tensor->shape = nullptr;
        expect(DEFORMKIT_NULL_ARGUMENT, {name});
        *tensor = before;
    }

    void dtypes(size_t i) {
        const DLDataType before = t.operands[i].dtype, f64 = {kDLFloat, 64, 1}, f16 = {kDLFloat, 16, 1};
        const DLDataType bf16 = {kDLBfloat, 16, 1}, i8 = {kDLInt, 8, 1}, i32 = {kDLInt, 32, 1}, u64 = {kDLUInt, 64, 1};
        const DLDataType u32 = {kDLUInt, 32, 1}, c64 = {kDLComplex, 64, 1}, f8 = {kDLFloat, 8, 1}, f32 = {kDLFloat, 32, 1};
        const DLDataType f32x2 = {kDLFloat, 32, 2}, i32x2 = {kDLInt, 32, 2}, i16 = {kDLInt, 16, 1}, f32x0 = {kDLFloat, 32, 0};
        std::vector<DLDataType> wrong = {u64, u32, c64, f8, f32x2, f32x0, i32x2};
        for (const DLDataType &dtype : {f64, f16, bf16, i8, i16, i32, f32}) {
            // Locations in cells may be of any type that is a number's.
            if (t.operands[i].index ? dtype.code != kDLInt || dtype.bits < 32 : !any_number(i) && dtype.bits != before.bits) {
                wrong.push_back(dtype);
            }
        }
        for (const DLDataType &dtype : wrong) {
            SCOPED_TRACE(::testing::Message()
                         << "code " << int{dtype.code} << ", " << int{dtype.bits} << " bits, " << int{dtype.lanes} << " lanes");
            t.arguments[i]->dtype = dtype;
            expect(DEFORMKIT_WRONG_DTYPE, {t.operands[i].name});
        }
        t.arguments[i]->dtype = before;
    }

    void axes(size_t i) {
        DLTensor *tensor = t.arguments[i];
        const int axes = tensor->ndim;
        const auto most = static_cast<int>(std::max(t.operands[i].split_shape.size(), t.operands[i].shape.size()));
        for (int wrong : {axes - 1, most + 1, 0, -1}) {
            SCOPED_TRACE(::testing::Message() << wrong << " axes");
            std::vector<int64_t> shape(tensor->shape, tensor->shape + axes), strides(tensor->strides, tensor->strides + axes);
            shape.resize(axes + 2, 1);
            strides.resize(axes + 2, 1);
            DLTensor spoilt = *tensor;
            spoilt.ndim = wrong;
            spoilt.shape = shape.data();
            spoilt.strides = strides.data();
            t.arguments[i] = &spoilt;
            expect(DEFORMKIT_WRONG_SHAPE, {t.operands[i].name, std::to_string(wrong), std::to_string(axes)});
        }
        t.arguments[i] = tensor;
    }

    void extents(size_t i, const std::vector<Extent> &free, const std::vector<Extent> &in_products) {
        const std::string &name = t.operands[i].name;
        for (int axis = 0; axis < t.arguments[i]->ndim; axis++) {
            SCOPED_TRACE(::testing::Message() << "axis " << axis);
            const auto is_among = [&](const std::vector<Extent> &extents) {
                return std::any_of(extents.begin(), extents.end(),
                                   [&](const Extent &e) { return e.operand == name && e.axis == axis; });
            };
            int64_t &extent = t.arguments[i]->shape[axis];
            const int64_t proper = extent;
            extent = -3;
            expect(DEFORMKIT_WRONG_SHAPE, {name, "-3"});
            for (int64_t wrong : {proper + 1, proper - 1}) {
                extent = wrong;
                if (is_among(free)) {
                    continue;
                }
                expect(DEFORMKIT_WRONG_SHAPE, {name});
                if (!is_among(in_products)) {
                    expect(DEFORMKIT_WRONG_SHAPE, {std::to_string(wrong), std::to_string(proper)});
                }
            }
            extent = proper;
        }
    }

    void devices(size_t i) {
        for (const DLDevice &device : {DLDevice{kDLCUDA, 1}, DLDevice{kDLOpenCL, 0}}) {
            t.arguments[i]->device = device;
            expect(DEFORMKIT_WRONG_DEVICE, {t.operands[i].name});
        }
        t.arguments[i]->device = {kDLCPU, 0};
    }

    /// The first axis of an operand with split axes, and the others exchanged or one too long.
    void split_axes(size_t i) {
        std::vector<int64_t> shape = t.operands[i].split_shape, strides = dense_strides(shape);
        const int64_t last = shape.back(), before = *(shape.end() - 2);
        DLTensor *tensor = t.arguments[i];
        DLTensor split = *tensor;
        split.ndim = static_cast<int>(shape.size());
        split.shape = shape.data();
        split.strides = strides.data();
        t.arguments[i] = &split;
        shape.back()++;
        expect(DEFORMKIT_WRONG_SHAPE, {t.operands[i].name, std::to_string(last + 1), std::to_string(last)});
        *(shape.end() - 2) = last;
        shape.back() = before;
        expect(DEFORMKIT_WRONG_SHAPE, {t.operands[i].name, std::to_string(last), std::to_string(before)});
        t.arguments[i] = tensor;
    }

    /// An output that is wanted is checked also when others are not; what is always needed, also when nothing is wanted.
    void wanted() {
        const std::vector<DLTensor *> all = t.arguments;
        const auto leave_out = [&](size_t but) {
            for (size_t i = 0; i < all.size(); i++) {
                t.arguments[i] = t.operands[i].output && i != but ? nullptr : all[i];
            }
        };
        for (size_t i = 0; i < all.size(); i++) {
            leave_out(i);
            if (t.operands[i].output) {
                all[i]->shape[1]++;
                expect(DEFORMKIT_WRONG_SHAPE, {t.operands[i].name});
                all[i]->shape[1]--;
                all[i]->dtype.bits = 16;
                expect(DEFORMKIT_WRONG_DTYPE, {t.operands[i].name});
                all[i]->dtype.bits = 32;
            } else {
                t.arguments[i] = nullptr;
                expect(DEFORMKIT_NULL_ARGUMENT, {t.operands[i].name});
            }
        }
        t.arguments = all;
    }

    /// Everywhere the same: consistent, and still wrong.
    void all_at_once() {
        for (const DLDataType &dtype : {DLDataType{kDLFloat, 8, 1}, {kDLInt, 8, 1}, {kDLInt, 32, 1}, {kDLUInt, 16, 1}}) {
            for_numbers([&](DLTensor *tensor) { tensor->dtype = dtype; });
            expect(DEFORMKIT_WRONG_DTYPE, {t.operands[0].name + ": expected one of float32, float16, bfloat16, float64, got"});
        }
        for_numbers([&](DLTensor *tensor) { tensor->dtype = {kDLFloat, 32, 1}; });
        const int64_t batch = t.arguments[0]->shape[0];
        for_numbers([&](DLTensor *tensor) { tensor->shape[0] = -8; });
        expect(DEFORMKIT_WRONG_SHAPE, {"-8"});
        for_numbers([&](DLTensor *tensor) { tensor->shape[0] = batch; });
    }

    ProblemTensors t;

private:
    bool any_number(size_t i) const { return t.operands[i].any_number; }

    template <typename Change>
    void for_numbers(Change &&change) {
        for (size_t i = 0; i < t.operands.size(); i++) {
            if (t.operands[i].is_number()) {
                change(t.arguments[i]);
            }
        }
    }
};

}  // namespace

void check_refusals(const Problem &problem, const std::vector<Extent> &free, const std::vector<Extent> &in_products) {
    Refusals refusals(problem);
    const bool optional = problem.pass() == Pass::kBackward;
    for (size_t i = 0; i < refusals.t.operands.size(); i++) {
        const Operand &operand = refusals.t.operands[i];
        SCOPED_TRACE(operand.name);
        refusals.null(i, operand.output && optional);
        refusals.devices(i);
        refusals.dtypes(i);
        refusals.axes(i);
        refusals.extents(i, free, in_products);
        if (!operand.split_shape.empty()) {
            refusals.split_axes(i);
        }
    }
    if (optional) {
        refusals.wanted();
    }
    refusals.all_at_once();
    // The last number that is an input says which type both have.
    DLTensor *value = refusals.t.arguments[0], *weights = refusals.t.arguments[4], *shapes = refusals.t.arguments[1];
    weights->dtype = {kDLFloat, 16, 1};
    refusals.expect(DEFORMKIT_WRONG_DTYPE, {refusals.t.operands[4].name, "float16", "float32"});
    weights->dtype = value->dtype;
    const DLDataType index = shapes->dtype;
    shapes->dtype = value->dtype;
    refusals.expect(DEFORMKIT_WRONG_DTYPE, {refusals.t.operands[1].name, "int32", "int64", "float32"});
    shapes->dtype = index;
    // A refusal leaves the next call alone, and its message is valid until the next failure.
    const std::string message = deformkit_last_error();
    EXPECT_EQ(refusals.t.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(matches(problem, refusals.t.outputs()));
    EXPECT_EQ(deformkit_last_error(), message);
}

namespace {

/// An output's strides or place; the call has to be refused and to write nothing.
template <typename Spoil>
void expect_overlap(const Problem &problem, const std::vector<std::string> &names, Spoil &&spoil) {
    // Into the middle, with room on all sides.
    std::vector<double> room(20000);
    const Refusals refusals(problem);
    spoil(refusals.t, room.data() + 10000);
    refusals.expect(DEFORMKIT_OVERLAPPING_OUTPUT, names);
}

void check_overlaps_refused(const Problem &problem) {
    const std::vector<Operand> operands = problem.operands();
    for (size_t o = 0; o < operands.size(); o++) {
        if (!operands[o].output) {
            continue;
        }
        const std::string &name = operands[o].name;
        const std::vector<int64_t> dense = dense_strides(operands[o].shape);
        const auto with_strides = [&](const std::vector<int64_t> &strides) {
            expect_overlap(problem, {name}, [&](const ProblemTensors &t, double *middle) {
                std::copy(strides.begin(), strides.end(), t.arguments[o]->strides);
                t.arguments[o]->data = middle;
            });
        };
        with_strides(std::vector<int64_t>(dense.size(), 0));
        for (size_t axis = 0; axis < dense.size(); axis++) {
            SCOPED_TRACE(::testing::Message() << name << ", axis " << axis);
            std::vector<int64_t> strides = dense;
            strides[axis] = 0;
            with_strides(strides);
            if (axis + 1 < dense.size()) {
                for (const int64_t wrong : {dense[axis] - 1, 1 - dense[axis], int64_t{1}}) {
                    strides[axis] = wrong;
                    if (dense[axis] > 1) {
                        with_strides(strides);
                    }
                }
            } else {
                strides[axis] = 2;  // where the next row begins after one
                with_strides(strides);
            }
        }
        // Inputs are in read-only memory: a call that is not refused ends the process.
        for (size_t i = 0; i < operands.size(); i++) {
            if (i == o) {
                continue;
            }
            const int64_t count = count_of(operands[i].shape) * operands[i].dtype.bits / 32, own = count_of(operands[o].shape);
            for (int64_t floats : {int64_t{0}, int64_t{1}, int64_t{3}, count - 1, 1 - own}) {
                SCOPED_TRACE(::testing::Message() << name << " on " << operands[i].name << ", " << floats);
                expect_overlap(problem, {name, operands[i].name}, [&](const ProblemTensors &t, double *) {
                    t.arguments[o]->data = static_cast<float *>(t.arguments[i]->data) + floats;
                });
                expect_overlap(problem, {name, operands[i].name}, [&](const ProblemTensors &t, double *) {
                    t.arguments[o]->strides = nullptr;
                    t.arguments[o]->data = static_cast<float *>(t.arguments[i]->data) + floats - 1000;
                    t.arguments[o]->byte_offset = 4000;
                });
            }
        }
    }
}

/// An operand's place in memory that others share.
struct Place {
    size_t operand;
    std::vector<int64_t> strides;
    int64_t first;  ///< element
};

/// Two operands in one allocation, and no element in both.
void check_together(const Problem &problem, const Outputs &dense, const Place &a, const Place &b, int64_t elements) {
    const ProblemTensors t(problem);
    const auto bytes = static_cast<int64_t>(size_of(problem.type()));
    std::vector<double> memory(elements * bytes / sizeof(double) + 1, std::nan(""));
    const auto place = [&](const Place &of) { return reinterpret_cast<unsigned char *>(memory.data()) + of.first * bytes; };
    for (const Place *each : {&a, &b}) {
        move_to(*t.tensors[each->operand], each->strides, place(*each));
    }
    EXPECT_EQ(t.call(), DEFORMKIT_OK) << deformkit_last_error();
    Outputs outputs;
    for (size_t i = 0; i < t.operands.size(); i++) {
        const Place *moved = i == a.operand ? &a : i == b.operand ? &b : nullptr;
        const std::vector<double> numbers = !t.operands[i].is_number() ? std::vector<double>()
                                            : moved == nullptr         ? t.tensors[i]->load_numbers()
                                                                       : load(*t.tensors[i], moved->strides, place(*moved));
        if (t.operands[i].output) {
            outputs.push_back(numbers);
        } else if (moved != nullptr) {
            EXPECT_TRUE(same_bits(numbers, t.operands[i].numbers)) << "an input was written to";
        }
    }
    EXPECT_TRUE(same_bits(outputs, dense));
}

void check_neighbours(const Problem &problem) {
    const Outputs dense = run(problem);
    const std::vector<Operand> operands = problem.operands();
    for (size_t o = 0; o < operands.size(); o++) {
        for (size_t i = 0; i < operands.size(); i++) {
            if (!operands[o].output || !operands[i].is_number() || operands[i].dtype.bits != operands[o].dtype.bits ||
                (operands[i].output && i >= o)) {
                continue;
            }
            SCOPED_TRACE(operands[o].name + " and " + operands[i].name);
            const std::vector<int64_t> &shape_i = operands[i].shape, &shape_o = operands[o].shape;
            const std::vector<int64_t> strides_i = dense_strides(shape_i), strides_o = dense_strides(shape_o);
            const int64_t count_i = count_of(shape_i), count_o = count_of(shape_o);
            check_together(problem, dense, {i, strides_i, 0}, {o, strides_o, count_i}, count_i + count_o);
            check_together(problem, dense, {i, strides_i, count_o}, {o, strides_o, 0}, count_i + count_o);
            // In turns.
            const auto doubled = [](std::vector<int64_t> strides) {
                std::transform(strides.begin(), strides.end(), strides.begin(), [](int64_t s) { return 2 * s; });
                return strides;
            };
            check_together(problem, dense, {i, doubled(strides_i), 0}, {o, doubled(strides_o), 1},
                           2 * std::max(count_i, count_o));
            // Side by side in each row of a matrix, as projections leave them: rows of the axes that both begin with.
            size_t axes = 0;
            while (axes < std::min(shape_i.size(), shape_o.size()) && shape_i[axes] == shape_o[axes]) {
                axes++;
            }
            for (size_t n = 1; n <= axes; n++) {
                const int64_t rows = count_of({shape_i.begin(), shape_i.begin() + n});
                const int64_t row_i = count_i / rows, row_o = count_o / rows;
                const auto side_by_side = [&](std::vector<int64_t> strides, int64_t row) {
                    for (size_t axis = 0; axis < n; axis++) {
                        strides[axis] = strides[axis] / row * (row_i + row_o);
                    }
                    return strides;
                };
                check_together(problem, dense, {i, side_by_side(strides_i, row_i), 0},
                               {o, side_by_side(strides_o, row_o), row_i}, count_i + count_o);
            }
        }
    }
}

}  // namespace

void check_overlaps(const Problem &problem) {
    check_overlaps_refused(problem);
    check_neighbours(problem);
    // What is not wanted does not overlap.
    const Outputs dense = run(problem);
    const std::vector<Operand> operands = problem.operands();
    if (problem.pass() == Pass::kBackward) {
        const ProblemTensors t(problem);
        ProblemTensors some(problem);
        const size_t last = operands.size() - 1;
        some.arguments[last]->data = some.arguments[last - 1]->data;
        some.arguments[last] = nullptr;
        EXPECT_EQ(some.call(), DEFORMKIT_OK) << deformkit_last_error();
        EXPECT_TRUE(same_bits(some.outputs(), dense));
    }
}

void check_accepted(const Problem &problem) {
    // Outputs are overwritten, never accumulated into.
    const ProblemTensors t(problem);
    ASSERT_EQ(t.call(), DEFORMKIT_OK) << deformkit_last_error();
    const Outputs once = t.outputs();
    ASSERT_EQ(t.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(same_bits(t.outputs(), once));
    EXPECT_TRUE(matches(problem, once));
    // Index tensors of different types.
    Layouts narrow;
    narrow.index_bits = 32;
    const ProblemTensors other(problem, narrow), mixed(problem);
    *mixed.arguments[2] = *other.arguments[2];
    EXPECT_EQ(mixed.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(same_bits(mixed.outputs(), once));
    // Of a tensor without elements, data may be NULL; of an axis of one element, the stride may be anything.
    const ProblemTensors odd(problem);
    for (size_t i = 0; i < odd.operands.size(); i++) {
        for (size_t axis = 0; axis < odd.operands[i].shape.size(); axis++) {
            if (odd.operands[i].shape[axis] == 1) {
                odd.arguments[i]->strides[axis] = i % 2 == 0 ? 0 : -12345;
            }
        }
        if (count_of(odd.operands[i].shape) == 0) {
            odd.arguments[i]->data = nullptr;
        }
    }
    EXPECT_EQ(odd.call(), DEFORMKIT_OK) << deformkit_last_error();
    EXPECT_TRUE(same_bits(odd.outputs(), once));
}

}  // namespace deformkit::testing
