// Whether tensors share memory. Elements are found at sums of steps, so the question is whether some sums meet: a linear equation
// in bounded integers. Those of tensors in use are solved in a few steps, whatever their sizes; for the rest, bytes are marked.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "runtime/interface/error.h"
#include "runtime/tensor/checked.h"
#include "runtime/tensor/tensor.h"

namespace deformkit {

namespace {

constexpr int kMostTerms = 2 * kMaxDimensions + 1;
constexpr int64_t kMostSteps = 1 << 20;           // of a search: about 10 ms
constexpr int64_t kMostMarks = int64_t{1} << 33;  // bytes and elements

enum class Answer { kNo, kYes, kUnknown };

/// The sums of step * i, 0 <= i <= most, of all terms.
class Sums {
public:
    void add(int64_t step, int64_t most) {
        if (step != 0 && most != 0) {
            terms_[count_++] = {step, most};
        }
    }

    /// Whether `target` is one of them.
    Answer contain(int64_t target) {
        merge();
        std::sort(terms_.begin(), terms_.begin() + count_, [](const Term &a, const Term &b) { return a.step > b.step; });
        for (int k = count_ - 1; k >= 0; k--) {
            reach_[k] = reach_[k + 1] + terms_[k].step * terms_[k].most;
            divisor_[k] = std::gcd(divisor_[k + 1], terms_[k].step);
        }
        steps_ = 0;
        return find(0, target);
    }

private:
    struct Term {
        int64_t step, most;
    };

    /// Terms that together are the multiples of the smaller step, without gaps: dense axes become one.
    void merge() {
        for (int i = 0; i < count_; i++) {
            for (int j = 0; j < count_; j++) {
                Term &small = terms_[i], &large = terms_[j];
                if (i != j && large.step % small.step == 0 && large.step / small.step <= small.most + 1) {
                    small.most += large.step / small.step * large.most;
                    large = terms_[--count_];
                    merge();
                    return;
                }
            }
        }
    }

    bool possible(int k, int64_t target) const {
        return target >= 0 && target <= reach_[k] && (target == 0 || target % divisor_[k] == 0);
    }

    /// By terms from k on, of which the steps are ever smaller.
    Answer find(int k, int64_t target) {
        if (!possible(k, target)) {
            return Answer::kNo;
        }
        if (target == 0 || k + 1 >= count_) {
            return Answer::kYes;
        }
        // What is left has to be a multiple of the other terms' divisor: that fixes i up to multiples of `stride`.
        const auto [step, most] = terms_[k];
        const int64_t stride = divisor_[k + 1] / divisor_[k];
        const int64_t low = target > reach_[k + 1] ? divide_up(target - reach_[k + 1], step) : 0;
        const int64_t high = std::min(most, target / step);
        const int64_t first = multiple(step / divisor_[k] % stride, target / divisor_[k] % stride, stride);
        for (int64_t i = low + ((first - low) % stride + stride) % stride; i <= high; i += stride) {
            if (++steps_ > kMostSteps) {
                return Answer::kUnknown;
            }
            const Answer answer = find(k + 1, target - step * i);
            if (answer != Answer::kNo) {
                return answer;
            }
        }
        return Answer::kNo;
    }

    /// The smallest i with a * i = b modulo m, where a and m have no common divisor.
    static int64_t multiple(int64_t a, int64_t b, int64_t m) {
        int64_t r0 = m, r1 = a, t0 = 0, t1 = 1;
        while (r1 != 0) {
            const int64_t q = r0 / r1;
            r0 = std::exchange(r1, r0 - q * r1);
            t0 = std::exchange(t1, t0 - q * t1);
        }
        __extension__ using Wide = __int128;
        return static_cast<int64_t>((static_cast<Wide>(t0 < 0 ? t0 + m : t0) * b) % m);
    }

    std::array<Term, kMostTerms> terms_;
    int count_ = 0;
    std::array<int64_t, kMostTerms + 1> reach_{}, divisor_{};  // of the terms from k on
    int64_t steps_ = 0;
};

/// Without axes of one element, and without those along which all elements are the same. Steps forwards, in bytes.
Tensor distinct_bytes(const Tensor &tensor) {
    Tensor result = tensor;
    result.data = const_cast<unsigned char *>(tensor.byte_range().first);
    result.ndim = 0;
    for (int i = 0; i < tensor.ndim; i++) {
        if (tensor.shape[i] > 1 && tensor.strides[i] != 0) {
            result.shape[result.ndim] = tensor.shape[i];
            result.strides[result.ndim++] = std::abs(tensor.strides[i]) * tensor.element_bytes();
        }
    }
    return result;
}

/// One flag for each byte of an output's range.
class Marks {
public:
    explicit Marks(const Tensor &output) : begin_(output.byte_range().first), used_(output.byte_range().second - begin_) {}

    /// Whether some byte of some element, of distinct_bytes(), was marked before; marks them all if `mark`.
    bool meet(const Tensor &tensor, bool mark) {
        std::array<int64_t, kMaxDimensions> at{};
        for (const unsigned char *address = tensor.data;;) {
            for (int64_t i = std::max<int64_t>(0, begin_ - address); i < tensor.element_bytes(); i++) {
                const int64_t byte = address - begin_ + i;
                if (byte < static_cast<int64_t>(used_.size())) {
                    if (used_[byte]) {
                        return true;
                    }
                    used_[byte] = mark;
                }
            }
            int axis = tensor.ndim - 1;
            for (; axis >= 0; axis--) {
                address += tensor.strides[axis];
                if (++at[axis] < tensor.shape[axis]) {
                    break;
                }
                address -= tensor.strides[axis] * tensor.shape[axis];
                at[axis] = 0;
            }
            if (axis < 0) {
                return false;
            }
        }
    }

private:
    const unsigned char *begin_;
    std::vector<bool> used_;
};

/// What is too much to tell counts as an overlap.
bool can_mark(const Tensor &output, const Tensor &other) {
    const auto [begin, end] = output.byte_range();
    return end - begin <= kMostMarks && output.elements() <= kMostMarks && other.elements() <= kMostMarks;
}

bool overlaps_itself(const Tensor &output) {
    std::array<std::pair<int64_t, int64_t>, kMaxDimensions> axes;  // step, last index, in order
    int count = 0;
    for (int i = 0; i < output.ndim; i++) {
        if (output.shape[i] > 1) {
            const std::pair<int64_t, int64_t> axis = {std::abs(output.strides[i]), output.shape[i] - 1};
            int at = count++;
            for (; at > 0 && axis < axes[at - 1]; at--) {
                axes[at] = axes[at - 1];
            }
            axes[at] = axis;
        }
    }
    // In most tensors each axis steps over all that the smaller ones span.
    int64_t span = 0;
    bool nested = true;
    for (int k = 0; k < count; k++) {
        nested = nested && axes[k].first > span;
        span += axes[k].first * axes[k].second;
    }
    if (nested) {
        return false;
    }
    // Two indices of one element differ by some d: step * d sums up to 0. Of the largest step where they differ, d is positive.
    bool unknown = false;
    for (int k = count - 1; k >= 0; k--) {
        Sums sums;
        int64_t target = -axes[k].first;
        sums.add(axes[k].first, axes[k].second - 1);
        for (int j = 0; j < k; j++) {
            sums.add(axes[j].first, 2 * axes[j].second);
            target += axes[j].first * axes[j].second;
        }
        const Answer answer = axes[k].first == 0 ? Answer::kYes : sums.contain(target);
        if (answer == Answer::kYes) {
            return true;
        }
        unknown |= answer == Answer::kUnknown;
    }
    const Tensor distinct = distinct_bytes(output);
    return unknown && (!can_mark(output, output) || Marks(output).meet(distinct, true));
}

using Range = std::pair<const unsigned char *, const unsigned char *>;

bool overlap(const Tensor &output, const Range &range, const Tensor &input) {
    const auto [begin, end] = range;
    const auto [input_begin, input_end] = input.byte_range();
    if (output.object != input.object || begin >= input_end || input_begin >= end) {
        return false;
    }
    const Tensor a = distinct_bytes(output), b = distinct_bytes(input);
    Sums sums;
    sums.add(1, a.element_bytes() + b.element_bytes() - 2);
    for (const Tensor *tensor : {&a, &b}) {
        for (int i = 0; i < tensor->ndim; i++) {
            sums.add(tensor->strides[i], tensor->shape[i] - 1);
        }
    }
    const Answer answer = sums.contain(input_end - 1 - begin);
    if (answer != Answer::kUnknown) {
        return answer == Answer::kYes;
    }
    if (!can_mark(output, b)) {
        return true;
    }
    Marks marks(output);
    marks.meet(a, true);
    return marks.meet(b, false);
}

}  // namespace

void require_no_overlap(const Tensor &output, std::initializer_list<const Tensor *> inputs) {
    if (output.empty()) {
        return;
    }
    if (overlaps_itself(output)) {
        fail(DEFORMKIT_OVERLAPPING_OUTPUT, output.name, "elements that do not overlap", layout_text(output));
    }
    const Range range = output.byte_range();
    for (const Tensor *input : inputs) {
        if (!input->empty() && overlap(output, range, *input)) {
            fail(DEFORMKIT_OVERLAPPING_OUTPUT, output.name, "memory of its own",
                 std::string("memory that it shares with ") + input->name);
        }
    }
}

}  // namespace deformkit
