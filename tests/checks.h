// What every operator has to do, whatever it computes: checks of a problem that need to know nothing else of it.
#pragma once

#include "tests/problem.h"

namespace deformkit::testing {

/// Guard pages on either side, index tensors of both types, operands with either number of axes. What there is nothing to
/// compute of is zero, and needs no kernel.
void check_against_reference(const Problem &problem, const Substance &least);
void check_against_reference(const Problem &problem);

/// Strides of every kind of each operand at a time, of all at once, and every alignment, without any effect on the bits.
void check_strides(const Problem &problem);

/// Numbers of threads and repetitions, without any effect on the bits.
void check_threads(const Problem &problem, const Substance &least);
/// The same where inputs hold NaN of either sign with many payloads. Which of two NaN a sum keeps is not promised: of the three
/// operands of a multiply-add, the compiler orders those of each loop as it likes.
void check_nans(const Problem &problem);
/// As many threads as problems call at once, each with errors of its own.
void check_callers(const std::vector<std::unique_ptr<Problem>> &problems, const Variant &variant);

/// Every subset of the outputs, without any effect on the bits; kernels run for what is wanted only.
void check_subsets(const Problem &problem, const Variant &variant);

/// On a GPU where the same bits are asked for: kernels that serve in place of those that add up in any order.
void check_in_order(const Problem &problem);

/// Finite elements as in `before`, to the last bit.
::testing::AssertionResult others_unchanged(const Outputs &now, const Outputs &before);

/// An axis that no other argument fixes, or one whose extent shows only in a product.
struct Extent {
    std::string operand;
    int axis;
};

/// Each argument spoilt in every way is refused with a status and a message that names it and says what came, and nothing is
/// written. Extents of the problem should differ from each other.
void check_refusals(const Problem &problem, const std::vector<Extent> &free, const std::vector<Extent> &in_products);
/// Outputs on top of themselves, each other and inputs are refused; beside, between and in turns with them they are not.
void check_overlaps(const Problem &problem);
/// What looks odd and is fine: NULL data of empty tensors, index tensors of two types, outputs that hold something.
void check_accepted(const Problem &problem);

}  // namespace deformkit::testing
