// A call of any operator and pass as a list of tensors, and checks that need to know nothing else of it.
#pragma once

#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/guarded.h"

namespace deformkit::testing {

/// One argument, dense and row-major.
struct Operand {
    std::string name;
    DLDataType dtype;
    std::vector<int64_t> shape;
    std::vector<double> numbers;    ///< an input's; rounded to its type
    std::vector<int64_t> integers;  ///< an input's, instead, where the type is one of integers
    bool output = false;
    bool index = false;  ///< of int32 or int64
};

/// What an output has to be, as close as its tolerance, and then rounded to its type.
struct Expected {
    std::vector<double> values, tolerances;
};

class Problem {
public:
    virtual ~Problem() = default;
    virtual Type type() const = 0;
    virtual std::vector<Operand> operands() const = 0;
    virtual deformkit_status call(const std::vector<DLTensor *> &tensors) const = 0;
    /// One for each output. From the numbers as they are stored.
    virtual std::vector<Expected> expected() const = 0;
};

/// How a call's tensors lie in memory, one entry an operand; none: dense, a guard page after each.
struct Layouts {
    std::vector<Layout> of;
    int index_bits = 64;
    std::vector<bool> left_out;  ///< outputs that are not asked for
};

Layouts all_guarded(const Problem &problem, Guard guard);
/// Axes in any order, slices, reversed axes.
Layouts random_layouts(const Problem &problem, uint32_t seed);

/// The tensors of a call in guarded memory; inputs cannot be written to.
class ProblemTensors {
public:
    explicit ProblemTensors(const Problem &problem, const Layouts &layouts = {});
    deformkit_status call() const { return problem_.call(arguments); }

    std::vector<Operand> operands;
    std::vector<std::unique_ptr<GuardedTensor>> tensors;
    std::vector<DLTensor *> arguments;

private:
    const Problem &problem_;
};

using Outputs = std::vector<std::vector<double>>;

/// Calls the library. Fails the test if the call fails, writes outside an output or not all of it. What is left out is empty.
Outputs run(const Problem &problem, const Layouts &layouts = {});
::testing::AssertionResult matches(const Problem &problem, const Outputs &outputs, const std::vector<Expected> &expected);
::testing::AssertionResult same_bits(const Outputs &a, const Outputs &b);
/// Whether an output holds anything but zeros: else a comparison would prove nothing.
bool holds_anything(const std::vector<double> &output);

/// Against the reference: guard pages on either side, index tensors of both types.
void check_against_reference(const Problem &problem, bool substantial = true);
/// Strides of every kind, without any effect on the bits.
void check_strides(const Problem &problem, int rounds);
/// Numbers of threads and repetitions, without any effect on the bits.
void check_threads(const Problem &problem);
/// Every subset of the outputs, without any effect on the bits.
void check_subsets(const Problem &problem);
/// Each argument spoilt in every way is refused with a status and a message that names it, and nothing is written.
/// `free_extents` lists (argument, axis) that no other argument fixes; `optional` are the arguments that may be NULL.
void check_refusals(const Problem &problem, const std::vector<std::pair<int, int>> &free_extents, bool outputs_optional);

}  // namespace deformkit::testing
