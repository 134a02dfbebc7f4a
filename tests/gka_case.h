// Calls of geometric kernel attention, and what they have to give.
#pragma once

#include "tests/problem.h"
#include "tests/support/reference_gka.h"
#include "tests/support/workloads.h"
#include "tests/variants.h"

namespace deformkit::testing {

/// Numbers are rounded to the type wherever they are used; locations to one of their own.
class GkaCase : public Problem {
public:
    enum class Pass { kForward, kBackward };

    GkaCase(const MsdaWorkload &workload, Type type, Pass pass, uint32_t seed = 1);

    Type type() const override { return type_; }
    std::vector<Operand> operands() const override;
    deformkit_status call(const std::vector<DLTensor *> &tensors) const override;
    std::vector<Expected> expected() const override;
    bool is_trivial() const;  ///< nothing to compute

    /// Locations of another type: of a floating-point one, or of integers, to which they are truncated.
    void set_location_dtype(DLDataType dtype) { location_dtype_ = dtype; }

    GkaReferenceInputs in;  ///< to be changed at will

private:
    std::vector<double> stored_locations() const;

    Type type_;
    Pass pass_;
    DLDataType location_dtype_ = {kDLFloat, 32, 1};
};

deformkit_status try_gka(GkaCase::Pass pass, Type type);
void for_each_gka_variant(GkaCase::Pass pass, const std::string &suite, const std::string &name, const VariantTest::Body &body,
                          const std::string &type = "");

}  // namespace deformkit::testing
