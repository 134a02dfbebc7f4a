// Copies between layouts, and nothing else touched: whole runs, runs in steps, and past the caches where lines allow it.
#include "runtime/tensor/pack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "runtime/tensor/layout.h"

namespace deformkit::testing {
namespace {

constexpr int64_t kOffsets[] = {0, 4, 64};  // bytes beyond a cache line

/// A tensor of 32-bit numbers, each a name of its own, with as much memory again around it.
class Field {
public:
    Field(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset, uint32_t first) {
        tensor_.dtype = {kDLUInt, 32, 1};
        tensor_.ndim = static_cast<int>(shape.size());
        int64_t lowest = 0, highest = 0;
        for (size_t i = 0; i < shape.size(); i++) {
            tensor_.shape[i] = shape[i];
            tensor_.strides[i] = strides[i];
            (strides[i] < 0 ? lowest : highest) += (shape[i] - 1) * strides[i];
        }
        numbers_.resize(highest - lowest + 256);
        for (uint32_t &number : numbers_) {
            number = first++;
        }
        auto *memory = reinterpret_cast<unsigned char *>(numbers_.data());
        const int64_t to_line = 64 - static_cast<int64_t>(reinterpret_cast<uintptr_t>(memory) % 64);
        tensor_.data = memory + 256 + to_line + offset - lowest * 4;
    }
    const Tensor &tensor() const { return tensor_; }
    std::vector<uint32_t> numbers() const { return numbers_; }

    /// Numbers as they will be once `number(i)` has been written to element i, counted along the last axis first.
    template <typename Number>
    std::vector<uint32_t> with(Number &&number) const {
        std::vector<uint32_t> expected = numbers_;
        for (int64_t i = 0; i < tensor_.elements(); i++) {
            expected[index(i)] = number(i);
        }
        return expected;
    }
    uint32_t at(int64_t i) const { return numbers_[index(i)]; }

private:
    int64_t index(int64_t i) const {
        int64_t at = reinterpret_cast<uint32_t *>(tensor_.data) - numbers_.data();
        for (int axis = tensor_.ndim - 1; axis >= 0; axis--) {
            at += i % tensor_.shape[axis] * tensor_.strides[axis];
            i /= tensor_.shape[axis];
        }
        return at;
    }

    Tensor tensor_;
    std::vector<uint32_t> numbers_;
};

struct Layouts {
    std::vector<int64_t> shape, from, to;
};

const Layouts kLayouts[] = {
    {{1}, {1}, {1}},
    {{64}, {1}, {1}},
    {{5, 16}, {16, 1}, {16, 1}},
    {{5, 16}, {16, 1}, {32, 1}},   // whole lines, apart
    {{5, 16}, {16, 1}, {20, 1}},   // lines that the rows cut
    {{5, 17}, {17, 1}, {32, 1}},   // rows of a line and a bit
    {{4, 6}, {6, 1}, {1, 4}},      // transposed
    {{4, 16}, {32, 2}, {-16, 1}},  // a step within rows; backwards
    {{3, 4, 2, 16}, {128, 32, 16, 1}, {512, 64, 16, 1}},
    {{3, 4, 2, 16}, {128, 32, 16, 1}, {64, 16, 192, 1}},  // head by head
    {{2, 3, 2, 8}, {48, 16, 8, 1}, {48, 8, 24, 1}},
    {{2, 0, 4}, {0, 4, 1}, {0, 4, 1}},
};

TEST(Pack, Copies) {
    for (const Layouts &l : kLayouts) {
        for (const int64_t offset : kOffsets) {
            for (const int how : {0, 1, 2}) {
                const Field from(l.shape, l.from, 0, 1000000), to(l.shape, l.to, offset, 1);
                const std::vector<uint32_t> before = from.numbers(), expected = to.with([&](int64_t i) { return from.at(i); });
                if (how == 0) {
                    copy_elements(from.tensor(), to.tensor());
                } else {
                    copy_block(from.tensor(), to.tensor(), /*stream=*/how == 2);
                }
                EXPECT_EQ(to.numbers(), expected) << "way " << how << ", offset " << offset << ", layout " << &l - kLayouts;
                EXPECT_EQ(from.numbers(), before);
            }
        }
    }
}

TEST(Pack, Clears) {
    for (const Layouts &l : kLayouts) {
        for (const bool parallel : {false, true}) {
            const Field to(l.shape, l.to, 0, 1);
            const std::vector<uint32_t> expected = to.with([](int64_t) { return 0; });
            (parallel ? fill_zero : clear_block)(to.tensor());
            EXPECT_EQ(to.numbers(), expected) << "layout " << &l - kLayouts;
        }
    }
}

/// Copies are filled up with zeros, and hold only as many items as the tensor has.
TEST(Pack, Stages) {
    const Field like({3, 4, 2, 5}, {1, 3, 12, 24}, 0, 1);
    CallMemory memory;
    const Tensor layout = arranged(like.tensor(), {0, 2, 1, 3}, {4, 6, 2, 16});
    const Staged staged(memory, layout), used;
    memory.open();
    std::memset(memory.at(0), 0xee, memory.bytes());
    const Tensor copy = staged.load(like.tensor());
    EXPECT_EQ(copy.shape[0], 3);
    EXPECT_EQ(copy.strides, layout.strides);
    const auto *numbers = reinterpret_cast<const uint32_t *>(copy.data);
    int64_t i = 0;
    for (int64_t b = 0; b < 3; b++) {
        for (int64_t q = 0; q < 6; q++) {
            for (int64_t m = 0; m < 2; m++) {
                for (int64_t d = 0; d < 16; d++) {
                    const uint32_t expected = q < 4 && d < 5 ? like.at(i++) : 0;
                    ASSERT_EQ(numbers[((b * 2 + m) * 6 + q) * 16 + d], expected);
                }
            }
        }
    }
    EXPECT_EQ(used.load(like.tensor()).data, like.tensor().data);
}

}  // namespace
}  // namespace deformkit::testing
