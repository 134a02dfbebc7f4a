// What is measured. A pass of an operator is one description; names, memory, calls and the tables of run_bench.py follow from
// it.
#pragma once

#include <deformkit/deformkit.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/workloads.h"

namespace deformkit::bench {

/// An argument of the C function.
struct Argument {
    enum Kind {
        kInput,   ///< of the storage type
        kIndex,   ///< int64
        kOutput,  ///< of the storage type
    };

    std::string name;
    Kind kind;
    std::vector<int64_t> shape;
};

/// What an argument holds: an index its `indices`, an input its `floats`, an output nothing.
struct Numbers {
    std::vector<float> floats;
    std::vector<int64_t> indices;
};

struct Workload {
    std::string name;
    std::vector<Argument> arguments;                           ///< in the C function's order
    int64_t samples;                                           ///< of the feature maps
    int64_t channels;                                          ///< that each sample has
    std::function<std::vector<Numbers>()> make_inputs;         ///< one for each argument
    std::function<void(void *const *, int num_threads)> hand;  ///< hand-written, float32, on dense arrays; empty: not here
};

struct Pass {
    std::string op, name;    ///< "msda", "forward"
    std::string title;       ///< of tables and plots
    std::string variant_of;  ///< the pass in variants.cmake whose row a call is named by (see deformkit_last_variant())
    std::string function;    ///< in deformkit.h
    std::function<deformkit_status(DLTensor *)> call;  ///< that function; one tensor for each argument
    Workload overhead;                                 ///< next to no work: what a call costs by itself
    std::vector<Workload> workloads;                   ///< the first one also with a value that misses 64-byte boundaries
};

namespace detail {

template <typename... Arguments, size_t... I>
auto calling(deformkit_status (*function)(Arguments...), std::index_sequence<I...>) {
    return [=](DLTensor *tensors) { return function(&tensors[I]...); };
}

}  // namespace detail

template <typename... Arguments>
std::function<deformkit_status(DLTensor *)> calling(deformkit_status (*function)(Arguments...)) {
    return detail::calling(function, std::index_sequence_for<Arguments...>());
}

/// The same inputs for everything that is measured.
constexpr uint32_t kInputSeed = 1;

/// What every operator's forward is given: feature maps, how large each is and where it begins, samples and their
/// weights; nothing for the output.
std::vector<Numbers> forward_inputs(std::vector<float> maps, std::vector<int64_t> shapes, std::vector<int64_t> starts,
                                    std::vector<float> locations, std::vector<float> weights);

/// Backward from forward, whose last argument is the output: its gradient is one more input, and there is a gradient for each
/// argument that `wanted` counts.
Workload backward_of(const Workload &forward, std::initializer_list<size_t> wanted);

/// MSDA and geometric kernel attention take the same arguments.
Workload attention_forward(const testing::MsdaWorkload &workload,
                           testing::MsdaInputs (*make_inputs)(const testing::MsdaWorkload &, uint32_t seed));

/// One query on maps that stay in the first-level cache: what is left is validation, dispatch and setting up.
extern const testing::MsdaWorkload kAttentionCallOverhead;

template <typename Described>
Pass make_pass(const char *op, const char *name, const std::string &title, Workload (*workload_of)(const Described &),
               const Described &overhead, const std::vector<Described> &workloads) {
    Pass pass;
    pass.op = op;
    pass.name = name;
    pass.title = title;
    pass.overhead = workload_of(overhead);
    for (const Described &workload : workloads) {
        pass.workloads.push_back(workload_of(workload));
    }
    return pass;
}

Pass msda_forward();
Pass msda_backward();
Pass da_forward();
Pass da_backward();
Pass gka_forward();
Pass gka_backward();

/// All of them.
const std::vector<Pass> &passes();

}  // namespace deformkit::bench
