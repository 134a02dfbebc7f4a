// MSDA forward: every variant on every model workload, and the cost of a call by itself.
//
// Names are <variant>/<workload>[/unaligned]/threads:N. --threads=1,4 sets the numbers of threads (default: 1 and one per
// core); all other flags are Google Benchmark's. GB/s counts the five inputs and the output once; samples are bilinear samples.
#include <benchmark/benchmark.h>
#include <deformkit/deformkit.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "best_of_reporter.h"
#include "hand.h"
#include "problem.h"
#include "variants.h"
#include "workloads.h"

namespace deformkit::bench {
namespace {

using testing::Locations;
using testing::MsdaWorkload;

/// One query on maps that stay in the first-level cache: what is left is validation, dispatch and setting up.
const MsdaWorkload kCallOverhead{"call_overhead", 1, 1, 8, 32, {{8, 8}, {4, 4}, {2, 2}, {1, 1}}, 4, Locations::kWide};

/// Multiply-adds per corner. OpenCL on the CPU (PoCL) is there to be tested; an encoder takes it seconds.
int64_t work_of(const MsdaWorkload &w) {
    return w.batch * w.queries * w.heads * static_cast<int64_t>(w.levels.size()) * w.points * w.channels;
}
constexpr int64_t kMostDeviceWork = 4'000'000;

/// Benchmarks are registered workload by workload, so that only one problem lives at a time.
MsdaProblem &problem_of(const MsdaWorkload &workload, testing::Type type, int64_t value_offset) {
    static std::unique_ptr<MsdaProblem> problem;
    static int64_t offset = 0;
    if (!problem || problem->workload.name != workload.name || problem->type != type || offset != value_offset) {
        problem.reset();  // before the next one takes memory
        problem = std::make_unique<MsdaProblem>(workload, type, value_offset);
        offset = value_offset;
    }
    return *problem;
}

void set_counters(benchmark::State &state, const MsdaProblem &p) {
    using benchmark::Counter;
    state.counters["GB/s"] = Counter(static_cast<double>(p.bytes()) * 1e-9, Counter::kIsIterationInvariantRate);
    state.counters["samples/s"] = Counter(static_cast<double>(p.samples()), Counter::kIsIterationInvariantRate);
}

void run_variant(benchmark::State &state, const Variant &variant, const MsdaWorkload &workload, int64_t value_offset,
                 int threads) {
    MsdaProblem &p = problem_of(workload, testing::type_named(variant.type), value_offset);
    const auto call = [&p] {
        return deformkit_msda_forward(&p.value, &p.spatial_shapes, &p.level_start_index, &p.sampling_locations,
                                      &p.attention_weights, &p.output);
    };
    // The first call is not timed: it starts threads or compiles for a device, and tells whether this machine has the variant.
    if (deformkit_set_target(variant.target.c_str()) != DEFORMKIT_OK || deformkit_set_num_threads(threads) != DEFORMKIT_OK ||
        call() != DEFORMKIT_OK) {
        state.SkipWithError(deformkit_last_error());
        return;
    }
    if (deformkit_last_variant() != variant.name()) {
        state.SkipWithError((std::string("another variant ran: ") + deformkit_last_variant()).c_str());
        return;
    }
    while (state.KeepRunning()) {
        if (call() != DEFORMKIT_OK) {
            state.SkipWithError(deformkit_last_error());
            break;
        }
        benchmark::ClobberMemory();
    }
    set_counters(state, p);
}

void run_hand_written(benchmark::State &state, const MsdaWorkload &workload, int threads) {
    if (!hand_msda_supports(workload)) {
        state.SkipWithError("this machine has no AVX-512");
        return;
    }
    MsdaProblem &p = problem_of(workload, testing::Type::kF32, 0);
    while (state.KeepRunning()) {
        hand_msda_forward(workload, p.value_data.floats(), p.spatial_shapes_data.data(), p.level_start_index_data.data(),
                          p.sampling_locations_data.floats(), p.attention_weights_data.floats(), p.output_data.floats(),
                          threads);
        benchmark::ClobberMemory();
    }
    set_counters(state, p);
}

template <typename Body>
void add(const std::string &subject, const std::string &workload, int threads, benchmark::TimeUnit unit, const Body &body) {
    const std::string name = subject + "/" + workload + "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(), body)
        ->UseRealTime()  // the work is done on the library's threads
        ->Unit(unit)
        ->ComputeStatistics("min", [](const std::vector<double> &v) { return *std::min_element(v.begin(), v.end()); })
        ->ComputeStatistics("max", [](const std::vector<double> &v) { return *std::max_element(v.begin(), v.end()); });
}

void add_variants(const MsdaWorkload &workload, const std::string &type, int64_t value_offset,
                  const std::vector<int> &threads) {
    const std::string suffix = value_offset ? "/unaligned" : "";
    const benchmark::TimeUnit unit = workload.name == kCallOverhead.name ? benchmark::kNanosecond : benchmark::kMillisecond;
    for (const Variant &variant : variants_of("msda", "forward", type)) {
        if (variant.on_device() && (value_offset || work_of(workload) > kMostDeviceWork)) {
            continue;
        }
        for (int n : threads) {
            if (variant.on_device() && n != threads.back()) {
                continue;
            }
            add(variant.name(), workload.name + suffix, n, unit,
                [=, &workload](benchmark::State &state) { run_variant(state, variant, workload, value_offset, n); });
        }
    }
}

void add_all(const std::vector<int> &threads) {
    add_variants(kCallOverhead, "f32", 0, threads);
    for (const MsdaWorkload &workload : testing::msda_model_workloads()) {
        for (const char *type : {"f32", "f16", "bf16", "f64"}) {
            add_variants(workload, type, 0, threads);
        }
        if (workload.name == "detr_encoder") {
            for (int n : threads) {
                add("hand_avx512", workload.name, n, benchmark::kMillisecond,
                    [=, &workload](benchmark::State &state) { run_hand_written(state, workload, n); });
            }
            add_variants(workload, "f32", 16, threads);  // what malloc promises
        }
    }
}

std::vector<int> parse_threads(const std::string &list) {
    std::vector<int> threads;
    std::istringstream in(list);
    for (std::string item; std::getline(in, item, ',');) {
        threads.push_back(std::stoi(item));
    }
    return threads;
}

}  // namespace
}  // namespace deformkit::bench

int main(int argc, char **argv) {
    using namespace deformkit::bench;
    std::vector<int> threads{1};
    if (std::thread::hardware_concurrency() > 1) {
        threads.push_back(static_cast<int>(std::thread::hardware_concurrency()));
    }
    // Defaults first: a flag that comes again later counts.
    std::vector<std::string> args{argv[0], "--benchmark_repetitions=5", "--benchmark_min_time=0.05",
                                  "--benchmark_report_aggregates_only=true"};
    bool to_file = false;
    for (int i = 1; i < argc; i++) {
        const std::string arg = argv[i], flag = "--threads=";
        if (arg.compare(0, flag.size(), flag) == 0) {
            try {
                threads = parse_threads(arg.substr(flag.size()));
            } catch (const std::exception &) {
                threads.clear();
            }
            if (threads.empty()) {
                std::cerr << "--threads takes numbers with commas between them\n";
                return 1;
            }
        } else {
            to_file |= arg.compare(0, 16, "--benchmark_out=") == 0;
            args.push_back(arg);
        }
    }
    std::vector<char *> pointers(args.size());
    std::transform(args.begin(), args.end(), pointers.begin(), [](std::string &arg) { return arg.data(); });
    int count = static_cast<int>(pointers.size());
    benchmark::Initialize(&count, pointers.data());
    if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) {
        return 1;
    }
    add_all(threads);

    BestOfReporter<benchmark::ConsoleReporter> console;
    BestOfReporter<benchmark::JSONReporter> json;
    benchmark::RunSpecifiedBenchmarks(&console, to_file ? &json : nullptr);
    benchmark::Shutdown();
    return 0;
}
