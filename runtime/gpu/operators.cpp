#include "runtime/gpu/operators.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "runtime/dispatch/dispatch.h"
#include "runtime/interface/error.h"
#include "runtime/tensor/layout.h"
#include "runtime/tensor/pack.h"

namespace deformkit {

namespace {

constexpr int64_t kWordsOfLane = 4;  // of 16 bytes

int64_t items_at_once(std::initializer_list<const Tensor *> tensors) {
    int64_t items = 65535;  // as many blocks along their third axis
    for (const Tensor *tensor : tensors) {
        if (tensor == nullptr || fits_indices(*tensor)) {
            continue;
        }
        const Tensor one = slice(*tensor, 0, 0, 1);
        require_fits(one);
        const auto [begin, end] = one.byte_range();
        const int64_t step = std::max<int64_t>(1, std::abs(tensor->strides[0]));
        items = std::min(items, 1 + (INT32_MAX - (end - begin) / tensor->element_bytes()) / step);
    }
    return items;
}

}  // namespace

int64_t query_tile(int64_t block_threads, int64_t threads, int64_t bytes) {
    return std::clamp<int64_t>(std::min(block_threads / threads, kSharedBytes / bytes), 1, kMostTile);
}

int64_t lanes_of(const Tensor &tensor) {
    return tensor.shape[tensor.ndim - 1] / lane_channels(tensor);
}

int64_t divisor_of(int64_t number, int64_t most) {
    int64_t divisor = std::min(number, most);
    while (number % divisor != 0) {
        divisor--;
    }
    return divisor;
}

Tensor as_words(const Tensor &tensor) {
    if (tensor.element_bytes() != 2) {
        return tensor;
    }
    Tensor words = tensor;
    words.dtype = {kDLUInt, 32, 1};
    const int last = tensor.ndim - 1;
    for (int i = 0; i < last; i++) {
        words.strides[i] /= 2;
    }
    words.shape[last] /= 2;
    words.strides[last] = 1;
    return words;
}

Tensor as_bits(const Tensor &tensor) {
    Tensor bits = tensor;
    if (tensor.element_bytes() == 2 && tensor.dtype.code != kDLInt) {
        bits.dtype = {kDLUInt, 16, 1};
    }
    return bits;
}

Tensor as_index_words(const Tensor &tensor) {
    const int64_t words = tensor.element_bytes() / 4;
    Tensor split = tensor;
    split.dtype = {kDLInt, 32, 1};
    for (int i = 0; i < tensor.ndim; i++) {
        split.strides[i] *= words;
    }
    split.shape[tensor.ndim] = words;
    split.strides[tensor.ndim] = 1;
    split.ndim++;
    return split;
}

Tensor as_pairs(const Tensor &tensor) {
    Tensor pairs = tensor;
    pairs.ndim--;
    for (int i = 0; i < pairs.ndim; i++) {
        pairs.strides[i] /= 2;
    }
    pairs.dtype = {kDLUInt, static_cast<uint8_t>(2 * tensor.dtype.bits), 1};
    return pairs;
}

bool has_pairs(const Tensor &tensor) {
    const int last = tensor.ndim - 1;
    bool pairs = tensor.strides[last] == 1 && reinterpret_cast<uint64_t>(tensor.data) % (2 * tensor.element_bytes()) == 0;
    for (int i = 0; i < last; i++) {
        pairs = pairs && (tensor.shape[i] <= 1 || tensor.strides[i] % 2 == 0);
    }
    return pairs;
}

LaneCells::LaneCells(const Tensor &tensor) : words(as_words(tensor)) {
    step = tensor.shape[1] > 1 ? words.strides[1] / kWordsOfLane : 1;
    words.strides[1] = kWordsOfLane;
}

MapGradient::MapGradient(GpuCall &gpu, const Tensor &gradient, const char *operation, const char *in_order)
    : gpu_(gpu), row_(gpu.variant(operation, gradient.dtype)), in_order_(in_place_of(row_, in_order, deterministic())) {
    if (in_order_ != nullptr) {
        written_ = &gpu.output(gradient);
        return;
    }
    if (deterministic()) {
        throw Failure(DEFORMKIT_NO_VARIANT, std::string(gradient.name) +
                                                ": on GPUs it is summed by atomic additions, in any order, but "
                                                "deformkit_set_deterministic() asks for the same bits each time");
    }
    Tensor like = dense_like(gradient, nullptr);
    if (gradient.element_bytes() == 2) {
        rounded_ = &gpu.output(gradient);
        like.dtype = {kDLFloat, 32, 1};
        written_ = &gpu.scratch(like);
    } else {
        written_ = &gpu.output(gradient, gpu.addressable(gradient) && dense(gradient, gradient.ndim - 1), like);
    }
}

Tensor MapGradient::target() const {
    return as_bits(*written_);
}

void MapGradient::finish() const {
    if (rounded_ != nullptr) {
        const Variant &narrow = gpu_.variant("convert_narrow", rounded_->dtype);
        Arguments(gpu_.queue(), narrow).add(*written_).add(as_bits(*rounded_)).launch();
    }
    set_last_variant(kernel().name);
}

const Tensor *wanted_of(const std::optional<Tensor> &gradient) {
    return gradient && !gradient->empty() ? &*gradient : nullptr;
}

const Tensor *part_of(const Tensor *gradient, int64_t first, int64_t count, Tensor &part) {
    if (gradient == nullptr) {
        return nullptr;
    }
    part = slice(*gradient, 0, first, count);
    return &part;
}

void for_channels(const Tensor &rows, const std::function<void(int64_t first, int64_t count)> &run) {
    const int64_t channels = rows.shape[rows.ndim - 1], at_once = kMostThreads * lane_channels(rows);
    for (int64_t first = 0; first < channels; first += at_once) {
        run(first, std::min(at_once, channels - first));
    }
}

void for_items(std::initializer_list<const Tensor *> tensors, const std::function<void(int64_t first, int64_t count)> &run) {
    const int64_t items = (*tensors.begin())->shape[0], at_once = items_at_once(tensors);
    for (int64_t first = 0; first < items; first += at_once) {
        run(first, std::min(at_once, items - first));
    }
}

}  // namespace deformkit
