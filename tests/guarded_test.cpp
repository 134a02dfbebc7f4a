// The guarded tensors notice what they are there to notice.
#include "tests/support/guarded.h"

#include <gtest/gtest.h>

namespace deformkit::testing {
namespace {

using GuardedDeathTest = ::testing::Test;

TEST(GuardedDeathTest, AccessBeyondTheGuardedEndIsFatal) {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    for (size_t bytes : {size_t{0}, size_t{1}, size_t{28}, size_t{4096}, size_t{10000}}) {
        const GuardedBuffer after(bytes, Guard::kAfter), before(bytes, Guard::kBefore);
        EXPECT_DEATH({ *static_cast<volatile uint8_t *>(after.data() + bytes) = 0; }, "") << bytes;
        EXPECT_DEATH({ *static_cast<volatile uint8_t *>(before.data() - 1) = 0; }, "") << bytes;
    }
}

TEST(GuardedDeathTest, WritingToAReadOnlyTensorIsFatal) {
    GuardedTensor tensor(dtype_of<float>(), {3});
    tensor.store<float>({1, 2, 3});
    tensor.make_read_only();
    EXPECT_EQ(tensor.load<float>(), (std::vector<float>{1, 2, 3}));
    EXPECT_DEATH({ *static_cast<volatile float *>(tensor.dl()->data) = 0; }, "");
}

TEST(Guarded, WritesOnTheOtherSideAreFound) {
    GuardedBuffer after(10, Guard::kAfter), before(10, Guard::kBefore);
    EXPECT_TRUE(after.poison_intact() && before.poison_intact());
    after.data()[-1] = 0;
    before.data()[10] = 0;
    EXPECT_FALSE(after.poison_intact() || before.poison_intact());
}

TEST(Guarded, WritesBetweenElementsAreFound) {
    Layout layout;
    layout.step = {1, 2};
    GuardedTensor tensor(dtype_of<float>(), {2, 3}, layout);
    EXPECT_TRUE(tensor.all_poison());
    EXPECT_EQ(tensor.elements_in_poison(), 6);
    tensor.store<float>({1, 2, 3, 4, 5, 6});
    EXPECT_EQ(tensor.load<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(tensor.elements_in_poison(), 0);
    EXPECT_TRUE(tensor.surroundings_intact());
    static_cast<float *>(tensor.dl()->data)[3] = 0;
    EXPECT_FALSE(tensor.surroundings_intact());
}

TEST(Guarded, Strides) {
    Layout layout;
    EXPECT_EQ(strides_of({2, 3, 4}, layout), (std::vector<int64_t>{12, 4, 1}));
    layout.order = {2, 0, 1};
    EXPECT_EQ(strides_of({2, 3, 4}, layout), (std::vector<int64_t>{3, 1, 6}));
    layout = {};
    layout.step = {1, 1, 2}, layout.pad = {0, 5, 0}, layout.reversed = {true, false, false};
    EXPECT_EQ(strides_of({2, 3, 4}, layout), (std::vector<int64_t>{-39, 13, 2}));
    layout = {};
    layout.expanded = {false, true, false};
    EXPECT_EQ(strides_of({2, 3, 4}, layout), (std::vector<int64_t>{4, 0, 1}));
}

TEST(Guarded, NegativeStridesAndByteOffsets) {
    Layout layout;
    layout.reversed = {true, true};
    layout.byte_offset = 100;
    GuardedTensor tensor(dtype_of<int64_t>(), {2, 3}, layout);
    tensor.store<int64_t>({1, 2, 3, 4, 5, 6});
    const DLTensor &dl = *tensor.dl();
    const auto *first = reinterpret_cast<const int64_t *>(static_cast<const uint8_t *>(dl.data) + dl.byte_offset);
    EXPECT_EQ(first[0], 1);
    EXPECT_EQ(first[dl.strides[0] + 2 * dl.strides[1]], 6);
    EXPECT_EQ(tensor.elements_in_poison(), 0);
    EXPECT_TRUE(tensor.surroundings_intact());
}

}  // namespace
}  // namespace deformkit::testing
