// One call of MSDA forward: its inputs, how they lie in memory, and what it has to give.
#pragma once

#include <deformkit/deformkit.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/guarded.h"
#include "tests/support/workloads.h"

namespace deformkit::testing {

/// Extents as in the public header; data dense, row-major. The numbers are rounded to `type` wherever they are used.
struct MsdaCase {
    Type type;
    int64_t B, K, M, D, Q, L, P;
    std::vector<double> value, locations, weights;
    std::vector<int64_t> shapes, starts;

    std::vector<int64_t> value_shape() const { return {B, K, M, D}; }
    std::vector<int64_t> shapes_shape() const { return {L, 2}; }
    std::vector<int64_t> starts_shape() const { return {L}; }
    std::vector<int64_t> locations_shape() const { return {B, Q, M, L, P, 2}; }
    std::vector<int64_t> weights_shape() const { return {B, Q, M, L, P}; }
    std::vector<int64_t> output_shape() const { return {B, Q, M * D}; }
    std::vector<int64_t> output_by_head_shape() const { return {B, Q, M, D}; }
    bool is_trivial() const { return B * Q * M * D == 0 || K * L * P == 0; }  ///< nothing to compute
};

MsdaCase make_case(const MsdaWorkload &workload, Type type = Type::kF32, uint32_t seed = 1);
const MsdaWorkload &awkward_workload(const std::string &name);

/// With as many queries as it takes to read each cell 64 times, as in an encoder. Kernels may go another way then.
MsdaWorkload crowded(MsdaWorkload workload);

/// The same maps, and `queries` of the queries, evenly spread.
MsdaCase take_queries(const MsdaCase &from, int64_t queries);

/// Moves locations away from the lines between cells, where float32 and float64 may disagree on which cells a sample touches.
/// (Rounded to 16 bits they may be back there, but then so short that neither rounds.)
void avoid_ties(MsdaCase &c);

struct MsdaLayout {
    Layout value, shapes, starts, locations, weights, output;
    int index_bits = 64;
    bool output_by_head = false;  ///< output [B, Q, M, D] instead of [B, Q, M * D]

    static MsdaLayout guarded(Guard guard);
};

/// The six tensors in guarded memory; the inputs cannot be written to.
struct MsdaTensors {
    GuardedTensor value, shapes, starts, locations, weights, output;

    explicit MsdaTensors(const MsdaCase &c, const MsdaLayout &layout = {});
    deformkit_status call();
};

/// What is left of a case in memory: numbers rounded to the type; elements that share memory, in expanded axes, equal.
MsdaCase as_stored(const MsdaCase &c, const MsdaLayout &layout);

/// Calls the library and returns the output, dense. Fails the test if the call fails, writes outside the output or not all of
/// it.
std::vector<double> run(const MsdaCase &c, const MsdaLayout &layout = {});

/// Whether each output is the float64 reference's, but for the rounding of the kernels' arithmetic and of the type; NaN and
/// infinities agree.
::testing::AssertionResult matches_reference(const MsdaCase &c, const std::vector<double> &output);

/// Whether most outputs differ from zero: else a comparison would prove nothing.
::testing::AssertionResult is_substantial(const std::vector<double> &output);

/// Bit for bit, NaN included.
::testing::AssertionResult same_bits(const std::vector<double> &a, const std::vector<double> &b);

}  // namespace deformkit::testing
