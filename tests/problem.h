// A call of any operator and pass as a list of tensors: how they lie in memory, what comes out, and what has to. checks.h has
// the checks that need to know nothing else of it.
#pragma once

#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/expected.h"
#include "tests/support/guarded.h"
#include "tests/variants.h"

namespace deformkit::testing {

enum class Pass { kForward, kBackward };

/// One argument, dense and row-major.
struct Operand {
    std::string name;
    DLDataType dtype;
    std::vector<int64_t> shape;
    std::vector<double> numbers;    ///< an input's; rounded to its type
    std::vector<int64_t> integers;  ///< an input's, instead, where the type is one of integers
    bool output = false;
    bool index = false;                     ///< of int32 or int64
    std::vector<int64_t> split_shape = {};  ///< the same elements with one more axis, where the operator takes both
    bool any_number = false;                ///< of any type, whichever the others are

    bool is_number() const { return dtype.code != kDLInt; }
};

class Problem {
public:
    using Numbers = std::vector<std::pair<std::string, std::vector<double> *>>;

    Problem(Type type, Pass pass) : type_(type), pass_(pass) {}
    virtual ~Problem() = default;
    Type type() const { return type_; }
    Pass pass() const { return pass_; }

    virtual std::unique_ptr<Problem> clone() const = 0;
    virtual std::vector<Operand> operands() const = 0;
    virtual deformkit_status call(const std::vector<DLTensor *> &tensors) const = 0;
    /// One for each output. From the numbers as they are stored.
    virtual std::vector<Expected> expected() const = 0;
    /// The inputs that are numbers, by name, to be changed.
    virtual Numbers numbers() = 0;
    virtual bool is_trivial() const = 0;  ///< nothing to compute: outputs are zeros

protected:
    Type type_;
    Pass pass_;
};

/// Of `type`; for float64 with digits that float32 has no place for.
std::vector<double> stored_numbers(const std::vector<float> &floats, Type type);
std::vector<double> rounded(Type type, std::vector<double> numbers);
/// What may come from the layers above.
std::vector<double> some_gradient(int64_t count, Type type, uint32_t seed);

/// How a call's tensors lie in memory.
struct Layouts {
    std::map<std::string, Layout> of = {};  ///< by the operand's name; others are dense
    Guard guard = Guard::kAfter;            ///< of those others
    int index_bits = 64;
    bool split = false;                   ///< operands that may have one more axis do
    std::set<std::string> left_out = {};  ///< outputs that are not asked for
};

Layouts guarded(Guard guard);  ///< before: with index tensors of int32, and split axes
/// Axes in any order, slices, reversed and expanded axes.
Layouts random_layouts(const Problem &problem, uint32_t seed);

using Outputs = std::vector<std::vector<double>>;

/// The tensors of a call in guarded memory; inputs cannot be written to.
class ProblemTensors {
public:
    explicit ProblemTensors(const Problem &problem, const Layouts &layouts = {});
    explicit ProblemTensors(Problem &&, const Layouts & = {}) = delete;
    deformkit_status call() const;
    GuardedTensor &operator[](const std::string &name) const;
    /// Dense; what is left out is empty.
    Outputs outputs() const;
    bool outputs_untouched() const;

    std::vector<Operand> operands;
    std::vector<std::unique_ptr<GuardedTensor>> tensors;
    std::vector<DLTensor *> arguments;

private:
    const Problem *problem_;
};

/// The problem that is left in memory: elements that share it, in expanded axes, are equal.
template <typename Case>
Case as_stored(Case problem, const Layouts &layouts) {
    const ProblemTensors tensors(problem, layouts);
    for (const auto &[name, numbers] : problem.numbers()) {
        *numbers = tensors[name].load_numbers();
    }
    return problem;
}

/// What a call wrote. Fails the test if it wrote outside an output or not all of it. What is left out is empty.
Outputs outputs_of(const ProblemTensors &tensors);
/// Calls the library. Fails the test if the call fails, writes outside an output or not all of it.
Outputs run(const Problem &problem, const Layouts &layouts = {});
::testing::AssertionResult matches(const Problem &problem, const Outputs &outputs, const std::vector<Expected> &expected);
::testing::AssertionResult matches(const Problem &problem, const Outputs &outputs);
/// NaN included. What is left out of either is not compared. Of the first output of several, of which a GPU adds up the sums in
/// any order, elements may differ by rounding of the largest.
::testing::AssertionResult same_bits(const Outputs &a, const Outputs &b);
::testing::AssertionResult same_bits(const std::vector<double> &a, const std::vector<double> &b);

/// Shares of the elements that have to differ from zero, of the first output and of others: else a comparison would prove
/// nothing. Of a map's gradients, few cells may be reached.
struct Substance {
    double first, others;
};
Substance usual_substance(const Problem &problem);
::testing::AssertionResult is_substantial(const Outputs &outputs, const Substance &least);
::testing::AssertionResult all_zero(const Outputs &outputs);
int64_t count_nonfinite(const Outputs &outputs);

/// Whether the last call ran the variant, or a kernel that runs in its place.
::testing::AssertionResult ran(const Variant &variant);

/// Which variants of a pass a test is registered for. Layouts in memory and threads are the host's business: the best variant
/// of each type that this machine has stands for all, with the portable one of float32 and those of float32 on devices, which
/// copy; threads are not those of devices.
enum class Rows { kAll, kHost, kThreads, kDevices, kF64, kBestF32 };

std::vector<Variant> rows_of(const std::string &op, Pass pass, Rows rows);
bool is_best(const Variant &variant);  ///< what this machine would choose

/// The smallest call there is, to find out whether the chosen target works here. Case: a problem with an operator's name and
/// its smallest instance.
template <typename Case>
deformkit_status try_smallest(Pass pass, Type type) {
    const Case smallest = Case::smallest(type, pass);
    const ProblemTensors tensors(smallest);
    const deformkit_status status = tensors.call();
    if (status == DEFORMKIT_OK) {
        EXPECT_TRUE(matches(smallest, tensors.outputs()));
    } else {
        EXPECT_TRUE(tensors.outputs_untouched()) << "a refused call wrote something";
    }
    return status;
}

/// Registers the test `suite`.<variant's name>/`name` for the rows of a pass. Of the kernels of a backward, the one for the
/// maps' gradient stands for all in names: each call asks for all gradients.
template <typename Case>
void for_each_variant(Pass pass, const std::string &suite, const std::string &name, const VariantTest::Body &body,
                      Rows rows = Rows::kAll) {
    for (const Variant &variant : rows_of(Case::kOperator, pass, rows)) {
        for (const Place place : places_of(variant.target)) {
            const std::string where = place == Place::kHost ? "" : "_on_device";
            ::testing::RegisterTest(suite.c_str(), (variant.name() + "/" + name + where).c_str(), nullptr, nullptr, __FILE__,
                                    __LINE__, [=]() -> VariantTest * {
                                        return new VariantTest(
                                            variant, place, [=](Type type) { return try_smallest<Case>(pass, type); }, body);
                                    });
        }
    }
}

}  // namespace deformkit::testing
