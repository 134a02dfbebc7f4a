// Calls of deformable aggregation, and what they have to give.
#pragma once

#include "tests/problem.h"
#include "tests/support/reference_da.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {

/// Numbers are rounded to the type wherever they are used.
class DaCase : public Problem {
public:
    static constexpr const char *kOperator = "da";
    static DaCase smallest(Type type, Pass pass);

    DaCase(const DaWorkload &workload, Type type, Pass pass, uint32_t seed = 1);

    std::unique_ptr<Problem> clone() const override { return std::make_unique<DaCase>(*this); }
    std::vector<Operand> operands() const override;
    deformkit_status call(const std::vector<DLTensor *> &tensors) const override;
    std::vector<Expected> expected() const override;
    Numbers numbers() override;
    bool is_trivial() const override;

    /// Moves locations away from the lines between cells, where arithmetic may disagree on which cells a sample touches.
    void avoid_ties();

    DaReferenceInputs in;  ///< to be changed at will
};

const DaWorkload &da_workload(const std::string &name);  ///< awkward ones

}  // namespace deformkit::testing
