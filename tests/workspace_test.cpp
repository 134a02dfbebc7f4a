// The plan of a call says how much memory it takes, whatever the knobs: random calls in a workspace of that size find room for
// everything that they and their kernels need, and give what they give without one.
#include "runtime/system/workspace.h"

#include <iostream>

#include "runtime/cpu/plan.h"
#include "runtime/dispatch/dispatch.h"
#include "tests/da_case.h"
#include "tests/fuzz.h"
#include "tests/gka_case.h"
#include "tests/msda_case.h"

namespace deformkit::testing {
namespace {

using Tensors = std::vector<DLTensor *>;

std::unique_ptr<Plan> plan_of(const MsdaCase &c, const Tensors &t) {
    return c.pass() == Pass::kForward ? plan(check_msda_forward(t[0], t[1], t[2], t[3], t[4], t[5]))
                                      : plan(check_msda_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]));
}

std::unique_ptr<Plan> plan_of(const GkaCase &c, const Tensors &t) {
    return c.pass() == Pass::kForward ? plan(check_gka_forward(t[0], t[1], t[2], t[3], t[4], t[5]))
                                      : plan(check_gka_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7]));
}

std::unique_ptr<Plan> plan_of(const DaCase &c, const Tensors &t) {
    return c.pass() == Pass::kForward ? plan(check_da_forward(t[0], t[1], t[2], t[3], t[4], t[5]))
                                      : plan(check_da_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]));
}

MsdaWorkload random_case(Dice &dice, const MsdaCase *) {
    return random_workload(dice);
}

MsdaWorkload random_case(Dice &dice, const GkaCase *) {
    return random_workload(dice);
}

DaWorkload random_case(Dice &dice, const DaCase *) {
    std::vector<Level> scales;
    for (int64_t i = dice.between(1, 3); i > 0; i--) {
        scales.push_back({dice.between(0, 12), dice.between(1, 12)});
    }
    return {"",
            dice.between(0, 3),
            dice.between(0, 30),
            dice.any_of<int64_t>({1, 13, 700}),
            dice.between(1, 3),
            scales,
            dice.between(1, 9),
            dice.any_of<int64_t>({16, 32, dice.between(1, 40)}),
            0.5};
}

/// Any values of all host knobs, or their own.
class RandomKnobs {
public:
    void draw(Dice &dice) {
        for (const HostKnobs &knobs : all_host_knobs()) {
            for (size_t i = 0; i < knobs.count; i++) {
                const Knob &knob = knobs.knobs[i];
                const int64_t most = dice.one_in(2) ? knob.highest : std::min(knob.highest, knob.lowest + 100);
                set_host_knob(knobs, knob.name, dice.one_in(3) ? knob.standard : dice.between(knob.lowest, most));
            }
        }
    }
    RandomKnobs() {
        for (const HostKnobs &knobs : all_host_knobs()) {
            for (size_t i = 0; i < knobs.count; i++) {
                before_.push_back(knobs.at(knobs.values, i));
            }
        }
    }
    ~RandomKnobs() {
        auto value = before_.begin();
        for (const HostKnobs &knobs : all_host_knobs()) {
            for (size_t i = 0; i < knobs.count; i++) {
                set_host_knob(knobs, knobs.knobs[i].name, *value++);
            }
        }
    }

private:
    std::vector<int64_t> before_;
};

template <typename Case>
void check_random_calls() {
    std::vector<std::pair<std::string, Type>> served;  // by target
    for (const deformkit::Variant &variant : deformkit::all_variants()) {
        if (std::string(variant.operation) != std::string(Case::kOperator) + "_forward" || variant.target->is_gpu()) {
            continue;
        }
        const Type type = type_named(variant.type->name);
        if (deformkit_set_target(variant.target->name) == DEFORMKIT_OK &&
            try_smallest<Case>(Pass::kForward, type) == DEFORMKIT_OK) {
            served.emplace_back(variant.target->name, type);
        }
    }
    ASSERT_FALSE(served.empty());
    RandomKnobs knobs;
    const uint32_t first = first_fuzz_seed();
    std::cout << "DEFORMKIT_FUZZ_SEED=" << first << "\n";
    int64_t with_workspace = 0;
    for (int64_t i = 0; i < fuzz_iterations(100) && !::testing::Test::HasFailure(); i++) {
        const uint32_t seed = first + static_cast<uint32_t>(i);
        Dice dice(seed);
        const auto [target, type] = dice.any_of(served);
        const Case c(random_case(dice, static_cast<const Case *>(nullptr)), type,
                     dice.any_of<Pass>({Pass::kForward, Pass::kBackward}), seed);
        SCOPED_TRACE(::testing::Message() << "to repeat it: DEFORMKIT_FUZZ_SEED=" << seed << " DEFORMKIT_FUZZ_ITERATIONS=1; "
                                          << target);
        ASSERT_EQ(deformkit_set_target(target.c_str()), DEFORMKIT_OK);
        ASSERT_EQ(deformkit_set_num_threads(static_cast<int>(dice.between(1, 7))), DEFORMKIT_OK);
        knobs.draw(dice);
        const Layouts layouts = random_layouts(c, seed);
        const Case stored = as_stored(c, layouts);
        const ProblemTensors tensors(c, layouts);
        const std::unique_ptr<Plan> planned = plan_of(c, tensors.arguments);
        const WorkspaceSize size = planned->workspace();
        GuardedBuffer memory(size.total(), Guard::kAfter);
        for (int round = 0; round < 2; round++) {
            const Workspace workspace(memory.data(), size);
            planned->run();
            EXPECT_LE(workspace.used().call_bytes, size.call_bytes);
            EXPECT_LE(workspace.used().worker_bytes, size.worker_bytes);
        }
        EXPECT_TRUE(memory.poison_intact());
        EXPECT_TRUE(matches(stored, outputs_of(tensors)));
        with_workspace += size.total() > 0;
    }
    EXPECT_GT(with_workspace, 0);
    EXPECT_EQ(deformkit_set_target(nullptr), DEFORMKIT_OK);
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

/// What a call takes for two threads, and what it has used when it has run.
template <typename Case, typename Workload>
WorkspaceSize check_used(const Workload &workload, Type type, Pass pass) {
    const Case c(workload, type, pass);
    const ProblemTensors tensors(c);
    const std::unique_ptr<Plan> planned = plan_of(c, tensors.arguments);
    const WorkspaceSize size = planned->workspace();
    const KeptBlock memory(size.total());
    const Workspace workspace(memory.data(), size);
    planned->run();
    EXPECT_LE(workspace.used().call_bytes, size.call_bytes);
    EXPECT_LE(workspace.used().worker_bytes, size.worker_bytes);
    EXPECT_TRUE(matches(c, outputs_of(tensors)));
    return size;
}

/// `call` and `task` as the operator's page says: for the call, and for each thread. Sizes are rounded up to be tried.
void expect_about(const WorkspaceSize &size, int64_t call, int64_t task) {
    constexpr int64_t kSmall = 4096;
    EXPECT_LE(static_cast<int64_t>(size.call_bytes), call + kSmall);
    EXPECT_GE(static_cast<int64_t>(size.call_bytes), call / 2);
    EXPECT_LE(static_cast<int64_t>(size.worker_bytes), task * 5 / 4 + kSmall);
    EXPECT_GE(static_cast<int64_t>(size.worker_bytes), task / 4);
}

// The formulas of docs/, for tensors that kernels use in place.
TEST(Workspace, Formulas) {
    ASSERT_EQ(deformkit_set_num_threads(2), DEFORMKIT_OK);
    for (const int64_t Q : {10, 300, 6000}) {
        for (const int64_t D : {16, 32}) {
            for (const Type type : {Type::kF32, Type::kF16}) {
                SCOPED_TRACE(::testing::Message() << "Q = " << Q << ", D = " << D << ", " << name_of(type));
                const MsdaWorkload w{"", 1, Q, 4, D, {{40, 50}, {20, 25}}, 4, Locations::kWide};
                const int64_t M = w.heads, K = w.keys(), S = 2 * w.points, e = type == Type::kF32 ? 4 : 2,
                              often = Q * S * 4 / K;
                const WorkspaceSize msda = check_used<MsdaCase>(w, type, Pass::kForward);
                const bool copied = often >= (type == Type::kF32 ? 32 : 16);
                expect_about(msda, 12 * M * S + (copied ? 4 * M * K * D : 0),
                             (often >= 16 ? 64 : std::min<int64_t>(Q, 1024)) * M * (24 * S + 4 * D));
                expect_about(check_used<MsdaCase>(w, type, Pass::kBackward),
                             12 * M * S + Q * M * (D + 3 * S) * e + (often >= 32 ? M * K * D * e : 0),
                             4 * K * D + 24 * Q * w.points);
                const int64_t gka_copy = often >= 16 ? M * K * D * e : 0;
                expect_about(check_used<GkaCase>(w, type, Pass::kForward), 12 * S + gka_copy, 0);
                expect_about(check_used<GkaCase>(w, type, Pass::kBackward), 24 * S + gka_copy, 4 * K * D);
            }
        }
    }
    for (const int64_t A : {600, 2000}) {
        for (const Type type : {Type::kF32, Type::kF16}) {
            SCOPED_TRACE(::testing::Message() << "A = " << A << ", " << name_of(type));
            const DaWorkload w{"", 1, A, 7, 3, {{16, 20}, {8, 10}}, 4, 32, 0.5};
            const int64_t channels = w.groups * w.channels;
            expect_about(check_used<DaCase>(w, type, Pass::kForward), 12 * 3 * 2,
                         std::min<int64_t>(A, 256) * (4 * channels + 12 * w.points * w.cameras));
            expect_about(check_used<DaCase>(w, type, Pass::kBackward), 12 * 3 * 2, 4 * w.cells() * channels);
        }
    }
    EXPECT_EQ(deformkit_set_num_threads(0), DEFORMKIT_OK);
}

TEST(Workspace, Msda) {
    check_random_calls<MsdaCase>();
}

TEST(Workspace, Da) {
    check_random_calls<DaCase>();
}

TEST(Workspace, Gka) {
    check_random_calls<GkaCase>();
}

}  // namespace
}  // namespace deformkit::testing
