// The workspace is what a second phase works in, and all that it needs: it allocates nothing, for any shapes, strides, targets
// and numbers of threads.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <random>
#include <vector>

#include "runtime/cpu/plan.h"
#include "runtime/system/memory.h"
#include "runtime/system/parallel.h"
#include "tests/ascend/backward.h"
#include "tests/ascend/forward.h"
#include "tests/interposed.h"
#include "tests/variants.h"

namespace deformkit::testing {
namespace {

class Dice {
public:
    explicit Dice(uint32_t seed) : engine_(seed) {}
    int64_t between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
    bool one_in(int64_t n) { return between(1, n) == 1; }
    template <typename T>
    T any_of(std::initializer_list<T> choices) {
        return *(choices.begin() + between(0, static_cast<int64_t>(choices.size()) - 1));
    }
    std::mt19937 &engine() { return engine_; }

private:
    std::mt19937 engine_;
};

int64_t from_environment(const char *name, int64_t otherwise) {
    const char *value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoll(value, nullptr, 10);
}

Layout random_layout(Dice &dice, int axes, bool may_expand) {
    Layout layout;
    if (dice.one_in(2)) {
        return layout;
    }
    for (int axis = 0; axis < axes; axis++) {
        layout.order.push_back(axis);
        layout.step.push_back(dice.one_in(6) ? 2 : 1);
        layout.reversed.push_back(dice.one_in(6));
        layout.expanded.push_back(may_expand && dice.one_in(10));
    }
    if (dice.one_in(2)) {
        std::shuffle(layout.order.begin(), layout.order.end(), dice.engine());
    }
    return layout;
}

Layouts random_layouts(Dice &dice) {
    Layouts layouts;
    layouts.split = dice.one_in(2);
    layouts.index_bits = dice.any_of({32, 64});
    layouts.of["value"] = random_layout(dice, 4, true);
    layouts.of["sampling_locations"] = random_layout(dice, 6, true);
    layouts.of["attention_weights"] = random_layout(dice, 5, true);
    layouts.of["output"] = layouts.of["grad_output"] = random_layout(dice, layouts.split ? 4 : 3, false);
    layouts.of["grad_value"] = random_layout(dice, 4, false);
    layouts.of["grad_sampling_locations"] = random_layout(dice, 6, false);
    layouts.of["grad_attention_weights"] = random_layout(dice, 5, false);
    return layouts;
}

MsdaWorkload random_workload(Dice &dice) {
    MsdaWorkload workload;
    workload.batch = dice.between(1, 4);
    workload.queries = dice.any_of<int64_t>({1, 2, dice.between(1, 40), dice.between(1, 3000)});
    workload.heads = dice.any_of<int64_t>({1, 8, dice.between(1, 16)});
    workload.channels = dice.any_of<int64_t>({16, 32, 64, 8 * dice.between(1, 32)});
    workload.points = dice.any_of<int64_t>({4, 2, 8, dice.between(1, 16)});
    if (workload.queries > 200) {
        workload.batch = std::min<int64_t>(workload.batch, 2);
        workload.heads = std::min<int64_t>(workload.heads, 2);
        workload.channels = std::min<int64_t>(workload.channels, 32);
    }
    const int64_t levels = dice.any_of<int64_t>({1, 3, 4, dice.between(1, 16)});
    for (int64_t l = 0; l < levels; l++) {
        workload.levels.push_back({dice.between(1, 12), dice.between(1, 12)});
    }
    workload.locations = dice.any_of({Locations::kNear, Locations::kWide, Locations::kBoxes});
    return workload;
}

std::vector<std::string> cpu_targets() {
    std::vector<std::string> targets;
    for (const Variant &variant : all_variants()) {
        if (variant.op == "msda" && variant.pass == "forward" && variant.type() == Type::kF32 &&
            availability_of(variant.target) == Availability::kYes) {
            targets.push_back(variant.target);
        }
    }
    return targets;
}

class AscendWorkspace : public AclTest {
protected:
    void TearDown() override {
        EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
        EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
        AclTest::TearDown();
    }
};

TEST_F(AscendWorkspace, TheCounterCounts) {
    if (!allocations_are_counted()) {
        GTEST_SKIP() << "AddressSanitizer brings a malloc of its own";
    }
    void *volatile blocks[2];  // or the compiler would leave them out
    int64_t allocations;
    {
        const CountAllocations count;
        blocks[0] = ::operator new(8);
        blocks[1] = aligned_alloc(64, 64);
        allocations = count.so_far().calls;
    }
    ::operator delete(blocks[0]);
    free(blocks[1]);
    EXPECT_EQ(allocations, 2);
}

// Without a workspace a call of the same shape does allocate: the counter sees what there is to see.
TEST_F(AscendWorkspace, ACallWithoutOneAllocates) {
    if (!allocations_are_counted()) {
        GTEST_SKIP() << "AddressSanitizer brings a malloc of its own";
    }
    const MsdaCase c({"", 1, 50, 3, 24, {{61, 37}}, 3, Locations::kWide}, Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c);
    const CountAllocations count;
    ASSERT_EQ(tensors.call(), DEFORMKIT_OK);
    EXPECT_GT(count.so_far().calls, 0);
}

void run_counting(SecondPhase second_phase, const Prepared &p, Dice &dice) {
    ASSERT_EQ(p.status, ACL_SUCCESS) << recent_message();
    GuardedBuffer workspace(p.workspace_bytes, dice.any_of({Guard::kAfter, Guard::kBefore}));
    int launched, synchronised;
    int64_t allocations;
    {
        const CountAllocations count;
        launched = second_phase(workspace.data(), p.workspace_bytes, p.executor, nullptr);
        synchronised = aclrtSynchronizeStream(nullptr);
        allocations = count.so_far().calls;
    }
    ASSERT_EQ(launched, ACL_SUCCESS) << recent_message();
    ASSERT_EQ(synchronised, ACL_SUCCESS) << recent_message();
    EXPECT_EQ(allocations, 0);
    EXPECT_TRUE(workspace.poison_intact());
}

/// Sizes and first keys as they come: levels that overlap, leave gaps, reach outside of value, or have all of it.
void disturb_indices(Dice &dice, MsdaReferenceInputs &c) {
    for (int64_t l = 0; l < c.L; l++) {
        if (dice.one_in(2)) {
            c.starts[l] = dice.between(-3, c.K);
        }
        if (dice.one_in(4)) {
            const int64_t width = dice.between(1, c.K);
            c.shapes[2 * l] = dice.any_of<int64_t>({1, c.K / width, 0, 0x3f800000});
            c.shapes[2 * l + 1] = width;
            c.starts[l] = dice.one_in(2) ? 0 : c.starts[l];
        }
    }
}

TEST_F(AscendWorkspace, SecondPhasesAllocateNothing) {
    const std::vector<std::string> targets = cpu_targets();
    ASSERT_FALSE(targets.empty());
    const auto first_seed = static_cast<uint32_t>(from_environment("DEFORMKIT_FUZZ_SEED", std::random_device()()));
    const int64_t calls = from_environment("DEFORMKIT_FUZZ_ITERATIONS", 300);
    std::cout << "DEFORMKIT_FUZZ_SEED=" << first_seed << "\n";
    for (int64_t i = 0; i < calls && !HasFailure(); i++) {
        const uint32_t seed = first_seed + static_cast<uint32_t>(i);
        Dice dice(seed);
        const Pass pass = dice.one_in(3) ? Pass::kForward : Pass::kBackward;
        MsdaCase c(random_workload(dice), dice.any_of({Type::kF32, Type::kF16, Type::kBf16}), pass, seed);
        if (dice.one_in(3)) {
            disturb_indices(dice, c.in);
        }
        const Layouts layouts = random_layouts(dice);
        const std::string &target = targets[dice.between(0, static_cast<int64_t>(targets.size()) - 1)];
        ASSERT_EQ(deformkit_set_target(target.c_str()), DEFORMKIT_OK);
        ASSERT_EQ(deformkit_set_num_threads(static_cast<int>(dice.between(1, 7))), DEFORMKIT_OK);
        SCOPED_TRACE(::testing::Message() << "to repeat it: DEFORMKIT_FUZZ_SEED=" << seed << " DEFORMKIT_FUZZ_ITERATIONS=1; "
                                          << target << ", B " << c.in.B << ", K " << c.in.K << ", M " << c.in.M << ", D "
                                          << c.in.D << ", Q " << c.in.Q << ", L " << c.in.L << ", P " << c.in.P);
        aclrtSynchronizeStream(nullptr);  // starts the default stream
        const ProblemTensors tensors(c, layouts);
        if (pass == Pass::kForward) {
            run_counting(aclnnMultiScaleDeformableAttnFunction, AclForward(tensors).prepare(), dice);
        } else {
            run_counting(aclnnMultiScaleDeformableAttentionGrad, AclBackward(tensors).prepare(), dice);
        }
        EXPECT_TRUE(same_bits(outputs_of(tensors), run(c, layouts)));
    }
}

// Where a call needs packed copies they lie in the workspace.
TEST_F(AscendWorkspace, HoldsWhatIsPacked) {
    Layouts layouts;
    layouts.of["value"].order = {0, 3, 2, 1};
    const MsdaCase c({"", 1, 9, 2, 16, {{40, 30}}, 2, Locations::kWide}, Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c, layouts);
    const Prepared p = AclForward(tensors).prepare();
    ASSERT_EQ(p.status, ACL_SUCCESS);
    const uint64_t packed_bytes = c.in.value.size() * size_of(c.type());
    EXPECT_GT(p.workspace_bytes, packed_bytes);
    GuardedBuffer workspace(p.workspace_bytes, Guard::kAfter);
    ASSERT_EQ(aclnnMultiScaleDeformableAttnFunction(workspace.data(), p.workspace_bytes, p.executor, nullptr), ACL_SUCCESS);
    ASSERT_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
    const auto untouched = std::count(workspace.data(), workspace.data() + workspace.size(), GuardedBuffer::kPoison);
    EXPECT_LT(static_cast<uint64_t>(untouched), p.workspace_bytes - packed_bytes);
    EXPECT_TRUE(matches(c, tensors.outputs()));
}

// A plan says the same whatever it is asked, and what it says is enough; what tasks had too little of they get elsewhere.
TEST_F(AscendWorkspace, OnePlanAnswersAndRuns) {
    Layouts layouts;
    layouts.of["value"].order = {0, 3, 2, 1};
    const MsdaCase c({"", 1, 300, 2, 16, {{40, 30}}, 2, Locations::kWide}, Type::kF32, Pass::kForward);
    const ProblemTensors tensors(c, layouts);
    ASSERT_EQ(deformkit_set_num_threads(2), DEFORMKIT_OK);
    const std::unique_ptr<Plan> planned =
        plan(check_msda_forward(tensors.arguments[0], tensors.arguments[1], tensors.arguments[2], tensors.arguments[3],
                                tensors.arguments[4], tensors.arguments[5]));
    const WorkspaceSize enough = planned->workspace();
    EXPECT_EQ(enough.workers, 2);
    EXPECT_EQ(planned->workspace().total(), enough.total());
    WorkspaceSize little = enough;
    little.worker_bytes = 4096;
    std::vector<uint8_t> memory(enough.total());
    for (const WorkspaceSize &size : {little, enough}) {
        const Workspace workspace(memory.data(), size);
        planned->run();
        EXPECT_EQ(workspace.used().call_bytes, enough.call_bytes);
        EXPECT_LE(workspace.used().worker_bytes, enough.worker_bytes);
        EXPECT_GT(workspace.used().worker_bytes, little.worker_bytes);
    }
    EXPECT_TRUE(matches(c, tensors.outputs()));
}

// Blocks that leave in another order than they came, and the loops of a call without a workspace beside one with.
TEST_F(AscendWorkspace, Regions) {
    WorkspaceSize size;
    size.call_bytes = 3 * workspace_block(1000);
    std::vector<uint8_t> memory(size.total());
    const Workspace workspace(memory.data() + 1, {size.call_bytes, 0, 0});
    for (int round = 0; round < 3; round++) {
        void *first = scratch_acquire(1000), *second = scratch_acquire(1000), *third = scratch_acquire(1000);
        ASSERT_NE(third, nullptr);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(third) % kScratchAlignment, 0u);
        const auto room_for = [&](size_t bytes) {
            void *block = scratch_acquire(bytes);
            const bool inside = workspace_region()->holds(block);
            scratch_release(block);
            return inside;
        };
        EXPECT_FALSE(room_for(1));
        scratch_release(second);
        EXPECT_FALSE(room_for(1)) << "not before the one after it has left";
        scratch_release(third);
        EXPECT_TRUE(room_for(1000));
        second = scratch_acquire(2 * 1000);
        EXPECT_NE(second, nullptr);
        scratch_release(first);
        scratch_release(second);
    }
    EXPECT_EQ(scratch_acquire(~size_t{0}), nullptr);
    {
        const WorkspaceScope outside(nullptr);
        void *elsewhere = scratch_acquire(1000);
        EXPECT_TRUE(elsewhere < memory.data() || elsewhere >= memory.data() + memory.size());
        scratch_release(elsewhere);
    }
    EXPECT_THROW(Workspace(memory.data(), size), std::logic_error);
}

TEST_F(AscendWorkspace, WorkersHaveMemoryOfTheirOwn) {
    ASSERT_EQ(deformkit_set_num_threads(6), DEFORMKIT_OK);
    start_threads();
    const WorkspaceSize size = {0, workspace_block(1000), 6};
    std::vector<uint8_t> memory(size.total());
    std::atomic<int> ran{0}, wrong{0};
    {
        const Workspace workspace(memory.data(), size);
        EXPECT_EQ(num_threads(), 6);
        parallel_for(1000, [&](int i) {
            auto *block = static_cast<volatile unsigned char *>(scratch_acquire(1000));
            if (block == nullptr || !workspace_region()->holds(const_cast<unsigned char *>(block))) {
                wrong++;
                return;
            }
            for (int at = 0; at < 1000; at++) {
                block[at] = static_cast<unsigned char>(i);
            }
            for (int at = 0; at < 1000; at++) {
                wrong += block[at] != static_cast<unsigned char>(i);
            }
            // A loop within a task runs on the same worker.
            int inner = 0;
            parallel_for(3, [&](int) { inner++; });
            wrong += inner != 3;
            scratch_release(const_cast<unsigned char *>(block));
            ran++;
        });
    }
    EXPECT_EQ(ran, 1000);
    EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace deformkit::testing
