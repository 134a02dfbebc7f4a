// Independent references in float64, written from the formulas in the public header, one sample at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace deformkit::testing {

/// A strided view; strides in elements. What DLTensor holds, with types.
template <typename T>
struct View {
    const T *data;
    std::vector<int64_t> shape, strides;
};

/// output [B, Q, M, D], dense. Coordinates are computed as u * W - 0.5 in float64 from the stored float32.
/// With `magnitude` the sum of |weight * corner weight * value| for each output is stored there: the scale of rounding errors.
/// With `sensitivity` the change of each output when every coordinate is off by the rounding errors of a float32 computation,
/// in units of 2^-24: it grows with the size of the map and with the difference of neighbouring cells.
std::vector<double> msda_forward_reference(const View<float> &value, const View<int64_t> &spatial_shapes,
                                           const View<int64_t> &level_start_index, const View<float> &sampling_locations,
                                           const View<float> &attention_weights, std::vector<double> *magnitude = nullptr,
                                           std::vector<double> *sensitivity = nullptr);

/// The largest difference from the reference that float32 arithmetic can explain, for an output that sums `samples` samples.
double msda_forward_tolerance(int64_t samples, double magnitude, double sensitivity);

}  // namespace deformkit::testing
