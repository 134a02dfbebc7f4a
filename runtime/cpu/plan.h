// One call on the CPU: which kernels run over which parts, and what memory that takes, decided once.
//
// A plan is made from shapes, strides, types, knobs and the number of threads, never from what tensors hold: so the same object
// can say how large a workspace has to be, and run the call later. What is kept for the whole call has its room in memory_;
// what a task takes, kernels' own memory included, is found out by trying one. So all of a call's memory is there before it
// writes anything: a call that is refused has left its outputs as they were.
#pragma once

#include <array>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "runtime/interface/da.h"
#include "runtime/interface/msda.h"
#include "runtime/system/memory.h"
#include "runtime/system/parallel.h"
#include "runtime/system/workspace.h"
#include "runtime/tensor/tensor.h"
#include "schedules/knobs.h"

namespace deformkit {

/// Tensors of zeros to try a task on. Small: all items but for those of the last `dense` axes are one and the same.
class TrialTensors {
public:
    Tensor make(const Tensor &like, int dense);
    Tensor make(DLDataType dtype, std::initializer_list<int64_t> shape, int dense);
    /// All levels have one cell, of key 0.
    LevelTable make_levels(int64_t columns);

private:
    std::vector<std::vector<unsigned char>> memory_;
};

/// All numbers that the memory of a task depends on, zeros behind them.
using TrialKey = std::array<int64_t, 12>;

/// A number that grows with the call, rounded up: at most four are tried between a power of two and the next, so that calls of
/// ever new shapes have soon been tried. For memory that only grows with it.
int64_t trial_size(int64_t n);

/// The highest value of a schedule knob, which decides what a task of any size takes at a time: no trial has to be larger.
template <typename ScheduleKnobs>
constexpr int64_t highest(std::string_view name) {
    for (const Knob &knob : ScheduleKnobs::knobs()) {
        if (knob.name == name) {
            return knob.highest;
        }
    }
    throw std::logic_error("no such knob");
}

class Plan {
public:
    Plan() = default;
    Plan(const Plan &) = delete;
    Plan &operator=(const Plan &) = delete;
    virtual ~Plan() = default;

    /// In this thread's Workspace, or else in a block that is kept for the next call.
    void run();
    /// Enough for run(): in a Workspace of this size it allocates nothing.
    WorkspaceSize workspace() const;

protected:
    /// No kernel is needed: outputs are empty or zeros.
    virtual bool is_nothing() const = 0;
    virtual void clear_outputs() const = 0;
    /// The memory is there.
    virtual void run_in_memory() = 0;
    /// Once each kind of task, at its largest.
    virtual void try_tasks(TrialTensors &tensors) const = 0;
    virtual TrialKey trial_key() const = 0;

    CallMemory memory_;
    int threads_ = num_threads();

private:
    WorkspaceSize size_of_tasks() const;
};

/// Plans a call, to be run later: at most once at a time.
std::unique_ptr<Plan> plan(const MsdaForwardCall &call);
std::unique_ptr<Plan> plan(const MsdaBackwardCall &call);
std::unique_ptr<Plan> plan(const DaForwardCall &call);
std::unique_ptr<Plan> plan(const DaBackwardCall &call);
std::unique_ptr<Plan> plan(const GkaForwardCall &call);
std::unique_ptr<Plan> plan(const GkaBackwardCall &call);
/// Plans a call and runs it.
void run(const MsdaForwardCall &call);
void run(const MsdaBackwardCall &call);
void run(const DaForwardCall &call);
void run(const DaBackwardCall &call);
void run(const GkaForwardCall &call);
void run(const GkaBackwardCall &call);

}  // namespace deformkit
