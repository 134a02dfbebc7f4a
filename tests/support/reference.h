// Independent references in float64, written from the formulas in the public header, one sample at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/support/expected.h"
#include "tests/support/types.h"

namespace deformkit::testing {

/// A strided view; strides in elements. What DLTensor holds, with types.
template <typename T>
struct View {
    const T *data;
    std::vector<int64_t> shape, strides;
};

/// output [B, Q, M, D], dense. Coordinates are computed as u * W - 0.5 in float64 from the numbers given. T: float or double.
/// With `magnitude` the sum of |weight * corner weight * value| for each output is stored there: the scale of rounding errors.
/// With `sensitivity` the change of each output when every coordinate is off by the rounding errors of the kernels'
/// arithmetic, in units of `rounding`: it grows with the size of the map and with the difference of neighbouring cells.
template <typename T>
std::vector<double> msda_forward_reference(const View<T> &value, const View<int64_t> &spatial_shapes,
                                           const View<int64_t> &level_start_index, const View<T> &sampling_locations,
                                           const View<T> &attention_weights, std::vector<double> *magnitude = nullptr,
                                           std::vector<double> *sensitivity = nullptr, double rounding = 0x1p-24);

/// The largest difference from the reference that the arithmetic of `type` can explain, for an output that sums `samples`
/// samples, before it is rounded to the type.
double msda_forward_tolerance(Type type, int64_t samples, double magnitude, double sensitivity);

}  // namespace deformkit::testing
