// Calls of MSDA, and what they have to give.
#pragma once

#include "tests/problem.h"
#include "tests/support/reference_backward.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {

/// Numbers are rounded to the type wherever they are used.
class MsdaCase : public Problem {
public:
    static constexpr const char *kOperator = "msda";
    static MsdaCase smallest(Type type, Pass pass);

    MsdaCase(const MsdaWorkload &workload, Type type, Pass pass, uint32_t seed = 1);

    std::unique_ptr<Problem> clone() const override { return std::make_unique<MsdaCase>(*this); }
    std::vector<Operand> operands() const override;
    deformkit_status call(const std::vector<DLTensor *> &tensors) const override;
    std::vector<Expected> expected() const override;
    Numbers numbers() override;
    bool is_trivial() const override;

    /// Moves locations away from the lines between cells, where arithmetic may disagree on which cells a sample touches.
    void avoid_ties();
    int64_t samples() const { return in.B * in.Q * in.M * in.L * in.P; }

    MsdaReferenceInputs in;  ///< to be changed at will
};

/// The same maps, and `queries` of the queries, evenly spread.
MsdaCase take_queries(const MsdaCase &from, int64_t queries);

const MsdaWorkload &awkward_workload(const std::string &name);
/// With as many queries as it takes to read each cell 64 times, as in an encoder. Kernels may go another way then.
MsdaWorkload crowded(MsdaWorkload workload);

}  // namespace deformkit::testing
