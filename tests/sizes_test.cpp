// Calls of every operator whose shapes, strides and offsets claim what no memory holds: refused by name, or right, and at once.
#include <ctime>
#include <limits>

#include "tests/checks.h"
#include "tests/da_case.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

// Extents that differ from each other, so that equal ones are the same axis of the operator.
const MsdaWorkload kMsda = {"", 3, 5, 6, 7, {{2, 3}, {2, 2}, {1, 1}, {1, 2}}, 8, Locations::kWide};
const DaWorkload kDa = {"", 3, 5, 6, 7, {{3, 4}, {2, 2}, {1, 2}, {1, 1}}, 8, 9, 0.5};

/// Split, so that each axis is one of the operator's.
Layouts split() {
    Layouts layouts;
    layouts.split = true;
    return layouts;
}

/// A call whose extents are changed all over.
class Claims {
public:
    explicit Claims(const Problem &problem) : t_(problem, split()) {}

    /// All axes of that extent get another; elements along them are one and the same.
    void claim(int64_t extent, int64_t claimed) {
        for (size_t i = 0; i < t_.arguments.size(); i++) {
            for (int axis = 0; axis < t_.arguments[i]->ndim; axis++) {
                if (t_.tensors[i]->shape()[axis] == extent) {
                    t_.arguments[i]->shape[axis] = claimed;
                    t_.arguments[i]->strides[axis] = 0;
                }
            }
        }
    }

    /// Refused by name, or done, and that soon.
    deformkit_status call() const {
        const std::clock_t begin = std::clock();
        const deformkit_status status = t_.call();
        EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);
        if (status == DEFORMKIT_OK) {
            return status;
        }
        EXPECT_TRUE(status == DEFORMKIT_WRONG_SHAPE || status == DEFORMKIT_OVERLAPPING_OUTPUT) << status;
        EXPECT_TRUE(t_.outputs_untouched()) << "a refused call wrote something";
        const std::string message = deformkit_last_error();
        EXPECT_TRUE(std::any_of(t_.operands.begin(), t_.operands.end(), [&](const Operand &operand) {
            return message.rfind(operand.name + ":", 0) == 0;
        })) << message;
        return status;
    }
    const ProblemTensors &tensors() const { return t_; }

private:
    ProblemTensors t_;
};

std::set<int64_t> extents_of(const Problem &problem) {
    std::set<int64_t> extents;
    for (const Operand &operand : ProblemTensors(problem, split()).operands) {
        for (const int64_t extent : operand.shape) {
            if (extent != 2) {  // x and y
                extents.insert(extent);
            }
        }
    }
    return extents;
}

const int64_t kClaims[] = {(int64_t{1} << 31) + 1, int64_t{1} << 40, (int64_t{1} << 58) + 1, (int64_t{1} << 60) + 1, kMax};

/// One axis at a time, and two, with each of the others empty or as it is.
void check_claims(const Problem &problem) {
    const std::set<int64_t> extents = extents_of(problem);
    int refused = 0, accepted = 0;
    for (const int64_t extent : extents) {
        for (const int64_t claimed : kClaims) {
            for (const int64_t other : extents) {
                SCOPED_TRACE(::testing::Message() << "axis of " << extent << " claims " << claimed << ", that of " << other);
                Claims both(problem), empty(problem);
                both.claim(extent, claimed);
                both.claim(other, claimed);
                refused += both.call() != DEFORMKIT_OK;
                if (other != extent) {
                    empty.claim(extent, claimed);
                    empty.claim(other, 0);
                    accepted += empty.call() == DEFORMKIT_OK;
                }
            }
        }
    }
    EXPECT_GT(refused, 0);
    EXPECT_GT(accepted, 0);
}

/// Strides and offsets beyond all memory, which mean nothing where there is one element, or none.
void check_strides_and_offsets(const Problem &problem) {
    for (const Operand &operand : problem.operands()) {
        for (size_t axis = 0; axis < operand.shape.size(); axis++) {
            for (const int64_t stride : {kMax, -kMax, -kMax - 1, kMax / 2, kMax / 3, -kMax / 8, int64_t{1} << 58}) {
                SCOPED_TRACE(::testing::Message() << operand.name << ", axis " << axis << ", stride " << stride);
                const ProblemTensors t(problem);
                t[operand.name].dl()->strides[axis] = stride;
                EXPECT_EQ(t.call(), DEFORMKIT_WRONG_SHAPE);
                EXPECT_EQ(std::string(deformkit_last_error()).rfind(operand.name + ":", 0), 0) << deformkit_last_error();
                EXPECT_TRUE(t.outputs_untouched());
            }
        }
        for (const uint64_t offset : {~uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} - 4096}) {
            SCOPED_TRACE(::testing::Message() << operand.name << ", from byte " << offset);
            const ProblemTensors t(problem);
            t[operand.name].dl()->byte_offset = offset;
            EXPECT_EQ(t.call(), DEFORMKIT_WRONG_SHAPE);
            EXPECT_EQ(std::string(deformkit_last_error()).rfind(operand.name + ":", 0), 0) << deformkit_last_error();
            EXPECT_TRUE(t.outputs_untouched());
        }
    }
}

/// Outputs whose elements meet far away.
void check_far_overlaps(const Problem &problem) {
    for (const Operand &operand : problem.operands()) {
        for (size_t axis = 0; operand.output && axis + 1 < operand.shape.size(); axis++) {
            const ProblemTensors t(problem);
            DLTensor *output = t[operand.name].dl();
            output->strides[axis] = output->strides[axis + 1] = int64_t{1} << 40;
            EXPECT_EQ(t.call(), DEFORMKIT_OVERLAPPING_OUTPUT) << operand.name << ", axis " << axis;
            EXPECT_TRUE(t.outputs_untouched());
        }
    }
}

template <typename Case, typename Workload>
void check_sizes(const Workload &workload) {
    for (const Pass pass : {Pass::kForward, Pass::kBackward}) {
        SCOPED_TRACE(pass == Pass::kForward ? "forward" : "backward");
        const Case c(workload, Type::kF32, pass);
        check_claims(c);
        check_strides_and_offsets(c);
        check_far_overlaps(c);
    }
}

TEST(Sizes, Msda) {
    check_sizes<MsdaCase>(kMsda);
}

TEST(Sizes, Da) {
    check_sizes<DaCase>(kDa);
}

TEST(Sizes, Gka) {
    check_sizes<GkaCase>(kMsda);
}

}  // namespace
}  // namespace deformkit::testing
