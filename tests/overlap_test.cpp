// Whether tensors share memory, against marking every byte; and at once, however large they claim to be.
#include <gtest/gtest.h>

#include <ctime>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/interface/error.h"
#include "runtime/tensor/tensor.h"

namespace deformkit::testing {
namespace {

constexpr int64_t kSomewhere = int64_t{1} << 44;  // an address: nothing is read

Tensor tensor_of(const char *name, uint8_t bits, int64_t at, const std::vector<int64_t> &shape,
                 const std::vector<int64_t> &strides) {
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = {kDLFloat, bits, 1};
    tensor.data = reinterpret_cast<unsigned char *>(kSomewhere + at);  // NOLINT: only compared
    tensor.ndim = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), tensor.shape.begin());
    std::copy(strides.begin(), strides.end(), tensor.strides.begin());
    return tensor;
}

std::vector<int64_t> bytes_of(const Tensor &tensor) {
    std::vector<int64_t> bytes;
    for (int64_t i = 0; i < tensor.elements(); i++) {
        auto address = reinterpret_cast<int64_t>(tensor.data);
        int64_t rest = i;
        for (int axis = tensor.ndim - 1; axis >= 0; axis--) {
            address += rest % tensor.shape[axis] * tensor.strides[axis] * tensor.element_bytes();
            rest /= tensor.shape[axis];
        }
        for (int64_t byte = 0; byte < tensor.element_bytes(); byte++) {
            bytes.push_back(address + byte);
        }
    }
    return bytes;
}

bool refused(const Tensor &output, const Tensor &input) {
    try {
        require_no_overlap(output, {&input});
        return false;
    } catch (const Failure &failure) {
        EXPECT_EQ(failure.status(), DEFORMKIT_OVERLAPPING_OUTPUT);
        EXPECT_NE(std::string(failure.what()).find("output"), std::string::npos) << failure.what();
        return true;
    }
}

TEST(Overlap, IsWhatMarkingFinds) {
    std::mt19937 random(1);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    int refusals = 0, beside = 0;
    for (int round = 0; round < 20000; round++) {
        const auto draw = [&](const char *name, int64_t at) {
            std::vector<int64_t> shape, strides;
            int64_t dense = 1;
            for (int64_t axes = 1 + below(5); axes > 0; axes--) {
                shape.push_back(below(20) == 0 ? 0 : 1 + below(5));
                // Dense, nearly so, or anything.
                const int64_t kind = below(8);
                strides.push_back((kind < 5 ? dense : kind == 5 ? dense + below(3) : below(40)) * (below(4) == 0 ? -1 : 1));
                dense = strides.back() == 0 ? dense : std::abs(strides.back()) * std::max<int64_t>(shape.back(), 1);
            }
            return tensor_of(name, below(2) == 0 ? 32 : 16, at, shape, strides);
        };
        const Tensor output = draw("output", 0), input = draw("input", below(400) - 200);
        const std::vector<int64_t> written = bytes_of(output), read = bytes_of(input);
        const std::set<int64_t> marked(written.begin(), written.end());
        bool expected = marked.size() != written.size();
        for (const int64_t byte : read) {
            expected = expected || marked.count(byte) > 0;
        }
        ASSERT_EQ(refused(output, input), expected)
            << "round " << round << ": " << layout_text(output) << " and " << layout_text(input);
        refusals += expected;
        beside +=
            !expected && !written.empty() && !read.empty() && *marked.begin() < read.back() && *marked.rbegin() > read.front();
    }
    EXPECT_GT(refusals, 1000);
    EXPECT_GT(beside, 500) << "too few that lie between each other";
}

struct Pair {
    const char *name;
    bool expected;
    Tensor output, input;
};

TEST(Overlap, IsFoundAtOnce) {
    constexpr int64_t kFar = int64_t{1} << 40, kMany = int64_t{1} << 30;
    const Tensor elsewhere = tensor_of("input", 32, -64, {1}, {1});
    const Pair pairs[] = {
        {"far apart", false, tensor_of("output", 32, 0, {2, 3, 4}, {kFar, kFar / 4, 1}), elsewhere},
        {"on top of itself, far apart", true, tensor_of("output", 32, 0, {2, 2, 4}, {kFar, kFar, 1}), elsewhere},
        {"on top of itself, once", true, tensor_of("output", 32, 0, {6, 6}, {5 * kFar, 4 * kFar}), elsewhere},
        {"never quite", false, tensor_of("output", 32, 0, {4, 5}, {5 * kFar, 4 * kFar}), elsewhere},
        {"more elements than places", true, tensor_of("output", 32, 0, {kMany, kMany}, {kMany / 2, 1}), elsewhere},
        {"in turns", false, tensor_of("output", 32, 0, {kMany, 4}, {8, 1}), tensor_of("input", 32, 16, {kMany, 4}, {8, 1})},
        {"in turns, but one", true, tensor_of("output", 32, 0, {kMany, 4}, {8, 1}),
         tensor_of("input", 32, 14, {kMany, 4}, {8, 1})},
        {"columns of a matrix", false, tensor_of("output", 16, 0, {kMany / 4, 3}, {7, 2}),
         tensor_of("input", 16, 2, {kMany / 4, 3}, {7, 2})},
        {"one element many times", true, tensor_of("output", 32, 0, {kMany, 4}, {8, 1}),
         tensor_of("input", 32, 160, {kMany, kMany / 4096}, {0, 0})},
        {"odd steps", true, tensor_of("output", 32, 0, {99, 98, 97, 96}, {100003, 100019, 100043, 100049}), elsewhere},
        {"heads in each other", false, tensor_of("output", 32, 0, {1000, 8, 16}, {8 * 48, 48, 1}),
         tensor_of("input", 32, 64, {1000, 8, 32}, {8 * 48, 48, 1})},
    };
    for (const Pair &pair : pairs) {
        SCOPED_TRACE(pair.name);
        const std::clock_t begin = std::clock();
        EXPECT_EQ(refused(pair.output, pair.input), pair.expected);
        EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC / 5);
    }
}

}  // namespace
}  // namespace deformkit::testing
