#include "runtime/tensor/pack.h"

#include <algorithm>
#include <cstring>
#include <limits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "runtime/interface/error.h"
#include "runtime/tensor/checked.h"
#include "runtime/tensor/runs.h"

namespace deformkit {

namespace {

/// Of a size known to the compiler, or, where that is 0, of `bytes` each. Pieces are small, and a call of memcpy for each would
/// take longer than the copy.
template <size_t Bytes>
void copy_pieces(const unsigned char *from, int64_t from_step, unsigned char *to, int64_t to_step, int64_t count,
                 size_t bytes) {
    for (int64_t i = 0; i < count; i++) {
        std::memcpy(to + i * to_step, from + i * from_step, Bytes != 0 ? Bytes : bytes);
    }
}

using PieceCopier = decltype(&copy_pieces<0>);

PieceCopier piece_copier(size_t bytes) {
    switch (bytes) {
        case 2:
            return copy_pieces<2>;
        case 4:
            return copy_pieces<4>;
        case 8:
            return copy_pieces<8>;
        case 16:
            return copy_pieces<16>;
        case 32:
            return copy_pieces<32>;
        case 64:
            return copy_pieces<64>;
        case 128:
            return copy_pieces<128>;
        default:
            return copy_pieces<0>;
    }
}

void clear_run(unsigned char *to, int64_t step, int64_t count, int64_t bytes) {
    if (step == bytes) {
        std::memset(to, 0, count * bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        std::memset(to + i * step, 0, bytes);
    }
}

constexpr size_t kCacheLine = 64;

/// Whole lines, written to memory without reading them first, or false. Others may see these stores only after end_stream().
bool stream_runs(const unsigned char *from, int64_t from_step, unsigned char *to, int64_t to_step, int64_t count,
                 int64_t bytes) {
#if defined(__SSE2__)
    if ((reinterpret_cast<uintptr_t>(to) | static_cast<uintptr_t>(to_step) | static_cast<uintptr_t>(bytes)) % kCacheLine != 0) {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        const auto *source = reinterpret_cast<const __m128i *>(from + i * from_step);
        auto *target = reinterpret_cast<__m128i *>(to + i * to_step);
        for (int64_t j = 0; j < bytes / 16; j++) {
            _mm_stream_si128(target + j, _mm_loadu_si128(source + j));
        }
    }
    return true;
#else
    return false;
#endif
}

void end_stream() {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/// What for_runs() visits to copy from one tensor to the other.
class RunCopier {
public:
    RunCopier(const Tensor &from, const Tensor &to, bool stream)
        : from_(from),
          to_(to),
          last_(from.ndim - 1),
          bytes_(from.element_bytes()),
          whole_(from.strides[last_] == 1 && to.strides[last_] == 1),
          stream_(stream && whole_),
          piece_(whole_ ? from.shape[last_] * bytes_ : bytes_),
          copy_(piece_copier(piece_)) {}

    void operator()(int64_t from_offset, int64_t to_offset, int64_t count) const {
        const unsigned char *from = from_.data + from_offset * bytes_;
        unsigned char *to = to_.data + to_offset * bytes_;
        const int64_t from_step = from_.strides[last_ - 1] * bytes_, to_step = to_.strides[last_ - 1] * bytes_;
        if (stream_ && stream_runs(from, from_step, to, to_step, count, piece_)) {
            return;
        }
        if (whole_) {
            copy_(from, from_step, to, to_step, count, piece_);
            return;
        }
        for (int64_t i = 0; i < count; i++) {
            copy_(from + i * from_step, from_.strides[last_] * bytes_, to + i * to_step, to_.strides[last_] * bytes_,
                  from_.shape[last_], piece_);
        }
    }

private:
    const Tensor &from_, &to_;
    int last_;
    int64_t bytes_;
    bool whole_, stream_;
    int64_t piece_;
    PieceCopier copy_;
};

}  // namespace

void copy_elements(const Tensor &from, const Tensor &to) {
    if (from.empty()) {
        return;
    }
    const Tensor source = with_two_axes(from), target = with_two_axes(to);
    for_each_run(source, target, RunCopier(source, target, false));
}

void copy_block(const Tensor &from, const Tensor &to, bool stream) {
    if (from.empty()) {
        return;
    }
    Tensor source = with_two_axes(from), target = with_two_axes(to);
    while (source.ndim > 2 && source.can_join_axes(source.ndim - 2) && target.can_join_axes(target.ndim - 2)) {
        source = source.join_axes(source.ndim - 2);
        target = target.join_axes(target.ndim - 2);
    }
    for_runs(source, target, 0, source.elements() / source.shape[source.ndim - 1], RunCopier(source, target, stream));
    if (stream) {
        end_stream();
    }
}

bool worth_streaming(const Tensor &output, int64_t least_bytes) {
    return product({output.elements(), output.element_bytes()}) >= least_bytes;
}

namespace {

/// What for_runs() visits.
void clear_runs(const Tensor &target, int64_t offset, int64_t count) {
    const int last = target.ndim - 1;
    const int64_t bytes = target.element_bytes();
    for (int64_t i = 0; i < count; i++) {
        clear_run(target.data + (offset + i * target.strides[last - 1]) * bytes, target.strides[last] * bytes,
                  target.shape[last], bytes);
    }
}

}  // namespace

void fill_zero(const Tensor &tensor) {
    if (tensor.empty()) {
        return;
    }
    const Tensor target = with_long_runs(tensor, library_knobs().clear_run_bytes);
    for_each_run(target, target, [&](int64_t offset, int64_t, int64_t count) { clear_runs(target, offset, count); });
}

void clear_block(const Tensor &tensor) {
    if (tensor.empty()) {
        return;
    }
    const Tensor target = with_long_runs(tensor, std::numeric_limits<int64_t>::max());
    for_runs(target, target, 0, target.elements() / target.shape[target.ndim - 1],
             [&](int64_t offset, int64_t, int64_t count) { clear_runs(target, offset, count); });
}

Tensor dense_like(const Tensor &like, unsigned char *data) {
    Tensor tensor = like;
    tensor.data = data;
    int64_t elements = 1;
    for (int axis = like.ndim - 1; axis >= 0; axis--) {
        tensor.strides[axis] = elements;
        elements = product({elements, like.shape[axis]});
    }
    return tensor;
}

}  // namespace deformkit
