// Calls of geometric kernel attention, and what they have to give.
#pragma once

#include "tests/problem.h"
#include "tests/support/reference_gka.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {

/// Numbers are rounded to the type wherever they are used; locations to one of their own.
class GkaCase : public Problem {
public:
    static constexpr const char *kOperator = "gka";
    static GkaCase smallest(Type type, Pass pass);

    GkaCase(const MsdaWorkload &workload, Type type, Pass pass, uint32_t seed = 1);

    std::unique_ptr<Problem> clone() const override { return std::make_unique<GkaCase>(*this); }
    std::vector<Operand> operands() const override;
    deformkit_status call(const std::vector<DLTensor *> &tensors) const override;
    std::vector<Expected> expected() const override;
    Numbers numbers() override;
    bool is_trivial() const override;

    /// Locations of another type: of a floating-point one, or of integers, to which they are truncated.
    void set_location_dtype(DLDataType dtype) { location_dtype_ = dtype; }

    MsdaReferenceInputs in;  ///< to be changed at will

private:
    std::vector<double> stored_locations() const;

    DLDataType location_dtype_ = {kDLFloat, 32, 1};
};

}  // namespace deformkit::testing
