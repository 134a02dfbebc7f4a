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

void fill(AlignedMemory &memory, const std::vector<float> &numbers, testing::Type type) {
    unsigned char *to = memory.data();
    for (float number : numbers) {
        testing::encode(type, number, to);
        to += testing::size_of(type);
    }
}

int64_t bytes_of(testing::Type type) {
    return static_cast<int64_t>(testing::size_of(type));
}

DLTensor tensor(void *data, std::vector<int64_t> &shape, DLDataType dtype) {
    DLTensor t{};
    t.data = data;
    t.device = {kDLCPU, 0};
    t.ndim = static_cast<int>(shape.size());
    t.dtype = dtype;
    t.shape = shape.data();
    return t;
}

}  // namespace

AlignedMemory::AlignedMemory(int64_t bytes, int64_t offset) : offset_(offset) {
    const int64_t padded = (std::max<int64_t>(bytes + offset, 1) + kAlignment - 1) / kAlignment * kAlignment;
    memory_.reset(static_cast<unsigned char *>(std::aligned_alloc(kAlignment, static_cast<size_t>(padded))));
    if (!memory_) {
        throw std::bad_alloc();
    }
}

MsdaProblem::MsdaProblem(const testing::MsdaWorkload &w, testing::Type type, int64_t value_offset)
    : workload(w),
      type(type),
      shapes{{w.batch, w.keys(), w.heads, w.channels},
             {static_cast<int64_t>(w.levels.size()), 2},
             {static_cast<int64_t>(w.levels.size())},
             {w.batch, w.queries, w.heads, static_cast<int64_t>(w.levels.size()), w.points, 2},
             {w.batch, w.queries, w.heads, static_cast<int64_t>(w.levels.size()), w.points},
             {w.batch, w.queries, w.heads * w.channels}},
      value_data(product(shapes[0]) * bytes_of(type), value_offset),
      sampling_locations_data(product(shapes[3]) * bytes_of(type)),
      attention_weights_data(product(shapes[4]) * bytes_of(type)),
      output_data(product(shapes[5]) * bytes_of(type)) {
    testing::MsdaInputs inputs = testing::make_msda_inputs(w, kInputSeed);
    fill(value_data, inputs.value, type);
    fill(sampling_locations_data, inputs.sampling_locations, type);
    fill(attention_weights_data, inputs.attention_weights, type);
    std::fill_n(output_data.data(), product(shapes[5]) * bytes_of(type), uint8_t{0});
    spatial_shapes_data = std::move(inputs.spatial_shapes);
    level_start_index_data = std::move(inputs.level_start_index);

    const DLDataType dtype = testing::dtype_of(type), index = {kDLInt, 64, 1};
    value = tensor(value_data.data(), shapes[0], dtype);
    spatial_shapes = tensor(spatial_shapes_data.data(), shapes[1], index);
    level_start_index = tensor(level_start_index_data.data(), shapes[2], index);
    sampling_locations = tensor(sampling_locations_data.data(), shapes[3], dtype);
    attention_weights = tensor(attention_weights_data.data(), shapes[4], dtype);
    output = tensor(output_data.data(), shapes[5], dtype);
}

int64_t MsdaProblem::samples() const {
    return product(shapes[4]);
}

int64_t MsdaProblem::bytes() const {
    const int64_t numbers = product(shapes[0]) + product(shapes[3]) + product(shapes[4]) + product(shapes[5]);
    const int64_t indices = product(shapes[1]) + product(shapes[2]);
    return numbers * bytes_of(type) + indices * static_cast<int64_t>(sizeof(int64_t));
}

}  // namespace deformkit::bench
