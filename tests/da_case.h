// Calls of deformable aggregation, and what they have to give.
#pragma once

#include "tests/problem.h"
#include "tests/support/reference_da.h"
#include "tests/support/workloads.h"
#include "tests/variants.h"

namespace deformkit::testing {

/// Numbers are rounded to the type wherever they are used.
class DaCase : public Problem {
public:
    enum class Pass { kForward, kBackward };

    DaCase(const DaWorkload &workload, Type type, Pass pass, uint32_t seed = 1);

    Type type() const override { return type_; }
    std::vector<Operand> operands() const override;
    deformkit_status call(const std::vector<DLTensor *> &tensors) const override;
    std::vector<Expected> expected() const override;

    /// Moves locations away from the lines between cells, where arithmetic may disagree on which cells a sample touches.
    void avoid_ties();
    bool is_trivial() const;  ///< nothing to compute

    DaReferenceInputs in;  ///< to be changed at will

private:
    DaReferenceInputs stored() const;

    Type type_;
    Pass pass_;
};

/// The smallest call there is: see VariantTest.
deformkit_status try_da(DaCase::Pass pass, Type type);

const DaWorkload &da_workload(const std::string &name);  ///< awkward ones

/// For every variant of a pass: the test `suite`.<variant's name>/`name`.
void for_each_da_variant(DaCase::Pass pass, const std::string &suite, const std::string &name, const VariantTest::Body &body,
                         const std::string &type = "");

}  // namespace deformkit::testing
