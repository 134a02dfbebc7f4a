#include "bench/problem.h"

#include <algorithm>
#include <functional>
#include <new>
#include <numeric>

namespace deformkit::bench {
namespace {

constexpr int64_t kAlignment = 64;

DLDataType dtype_of(const Argument &argument, testing::Type type) {
    return argument.kind == Argument::kIndex ? DLDataType{kDLInt, 64, 1} : testing::dtype_of(type);
}

}  // namespace

int64_t bytes_of(const Argument &argument, testing::Type type) {
    return std::accumulate(argument.shape.begin(), argument.shape.end(), int64_t{1}, std::multiplies<int64_t>()) *
           dtype_of(argument, type).bits / 8;
}

void fill(const Workload &workload, testing::Type type, void *const *data) {
    const std::vector<Numbers> numbers = workload.make_inputs();
    for (size_t i = 0; i < workload.arguments.size(); i++) {
        std::copy(numbers[i].indices.begin(), numbers[i].indices.end(), static_cast<int64_t *>(data[i]));
        auto *to = static_cast<unsigned char *>(data[i]);
        for (float number : numbers[i].floats) {
            testing::encode(type, number, to);
            to += testing::size_of(type);
        }
    }
}

AlignedMemory::AlignedMemory(int64_t bytes, int64_t offset) : offset_(offset) {
    const int64_t padded = (std::max<int64_t>(bytes + offset, 1) + kAlignment - 1) / kAlignment * kAlignment;
    memory_.reset(static_cast<unsigned char *>(std::aligned_alloc(kAlignment, static_cast<size_t>(padded))));
    if (!memory_) {
        throw std::bad_alloc();
    }
}

Problem::Problem(const Workload &w, testing::Type t, int64_t offset) : workload(w), type(t) {
    for (const Argument &argument : w.arguments) {
        memory.emplace_back(bytes_of(argument, type), memory.empty() ? offset : 0);
        data.push_back(memory.back().data());
        shapes.push_back(argument.shape);
    }
    fill(w, type, data.data());
    for (size_t i = 0; i < w.arguments.size(); i++) {
        if (w.arguments[i].kind == Argument::kOutput) {  // pages that are there before anything is timed
            std::fill_n(memory[i].data(), bytes_of(w.arguments[i], type), uint8_t{0});
        }
        DLTensor tensor{};
        tensor.data = data[i];
        tensor.device = {kDLCPU, 0};
        tensor.ndim = static_cast<int>(shapes[i].size());
        tensor.dtype = dtype_of(w.arguments[i], type);
        tensor.shape = shapes[i].data();
        tensors.push_back(tensor);
    }
}

int64_t Problem::bytes() const {
    return std::accumulate(workload.arguments.begin(), workload.arguments.end(), int64_t{0},
                           [&](int64_t sum, const Argument &argument) { return sum + bytes_of(argument, type); });
}

}  // namespace deformkit::bench
