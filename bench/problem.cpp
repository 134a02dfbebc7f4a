#include "problem.h"

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>

namespace deformkit::bench {
namespace {

constexpr int64_t kAlignment = 64;

int64_t product(const std::vector<int64_t> &shape) {
    return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

DLTensor tensor(void *data, std::vector<int64_t> &shape, DLDataTypeCode code, int bits) {
    DLTensor t{};
    t.data = data;
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int>(shape.size());
    t.dtype = {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
    t.shape = shape.data();
    return t;
}

}  // namespace

AlignedFloats::AlignedFloats(int64_t size, int64_t offset) : offset_(offset) {
    const int64_t bytes = (size + offset) * static_cast<int64_t>(sizeof(float));
    const int64_t padded = (std::max<int64_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    memory_.reset(static_cast<float *>(std::aligned_alloc(kAlignment, static_cast<size_t>(padded))));
    if (!memory_) {
        throw std::bad_alloc();
    }
}

MsdaProblem::MsdaProblem(const testing::MsdaWorkload &w, int64_t value_offset)
    : workload(w),
      shapes{{w.batch, w.keys(), w.heads, w.channels},
             {static_cast<int64_t>(w.levels.size()), 2},
             {static_cast<int64_t>(w.levels.size())},
             {w.batch, w.queries, w.heads, static_cast<int64_t>(w.levels.size()), w.points, 2},
             {w.batch, w.queries, w.heads, static_cast<int64_t>(w.levels.size()), w.points},
             {w.batch, w.queries, w.heads * w.channels}},
      value_data(product(shapes[0]), value_offset),
      sampling_locations_data(product(shapes[3])),
      attention_weights_data(product(shapes[4])),
      output_data(product(shapes[5])) {
    testing::MsdaInputs inputs = testing::make_msda_inputs(w, kInputSeed);
    std::copy(inputs.value.begin(), inputs.value.end(), value_data.data());
    std::copy(inputs.sampling_locations.begin(), inputs.sampling_locations.end(), sampling_locations_data.data());
    std::copy(inputs.attention_weights.begin(), inputs.attention_weights.end(), attention_weights_data.data());
    std::fill_n(output_data.data(), product(shapes[5]), 0.0f);
    spatial_shapes_data = std::move(inputs.spatial_shapes);
    level_start_index_data = std::move(inputs.level_start_index);

    value = tensor(value_data.data(), shapes[0], kDLFloat, 32);
    spatial_shapes = tensor(spatial_shapes_data.data(), shapes[1], kDLInt, 64);
    level_start_index = tensor(level_start_index_data.data(), shapes[2], kDLInt, 64);
    sampling_locations = tensor(sampling_locations_data.data(), shapes[3], kDLFloat, 32);
    attention_weights = tensor(attention_weights_data.data(), shapes[4], kDLFloat, 32);
    output = tensor(output_data.data(), shapes[5], kDLFloat, 32);
}

int64_t MsdaProblem::samples() const {
    return product(shapes[4]);
}

int64_t MsdaProblem::bytes() const {
    const int64_t floats = product(shapes[0]) + product(shapes[3]) + product(shapes[4]) + product(shapes[5]);
    const int64_t indices = product(shapes[1]) + product(shapes[2]);
    return floats * static_cast<int64_t>(sizeof(float)) + indices * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace deformkit::bench
