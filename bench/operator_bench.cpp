// Every variant of every pass on every model workload, in every storage type, and the cost of a call by itself.
//
// Names are <variant>/<workload>[/unaligned]/threads:N, where the variant is what deformkit_last_variant() calls a call, and
// <variant>/<workload>/on_device for tensors in a device's memory: without it, each call copies them there and back. A call on
// a device is waited for.
// --threads=1,4 sets the numbers of threads (default: 1 and one per core); all other flags are Google Benchmark's. GB/s counts
// every argument once.
#include <benchmark/benchmark.h>
#include <deformkit/deformkit.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "bench/best_of_reporter.h"
#include "bench/operators.h"
#include "bench/problem.h"
#include "bench/variants.h"
#include "tests/support/device.h"

namespace deformkit::bench {
namespace {

/// Samples x channels. OpenCL on the CPU (PoCL) is there to be tested; an encoder takes it seconds.
constexpr int64_t kMostOpenClWork = 4'000'000;

/// A problem's tensors in a device's memory.
class DeviceTensors {
public:
    DeviceTensors(const testing::Device &device, const Problem &problem) : device_(device), tensors_(problem.tensors) {
        for (DLTensor &tensor : tensors_) {
            size_t bytes = tensor.dtype.bits / 8;
            for (int i = 0; i < tensor.ndim; i++) {
                bytes *= tensor.shape[i];
            }
            const auto *data = static_cast<const unsigned char *>(tensor.data);
            tensor.data = device.copy_of({data, data + bytes});
            tensor.device = device.dl();
        }
    }
    ~DeviceTensors() {
        for (const DLTensor &tensor : tensors_) {
            device_.release(tensor.data);
        }
    }
    DeviceTensors(const DeviceTensors &) = delete;
    DeviceTensors &operator=(const DeviceTensors &) = delete;

    DLTensor *data() { return tensors_.data(); }

private:
    const testing::Device &device_;
    std::vector<DLTensor> tensors_;
};

/// Benchmarks are registered workload by workload, so that only one problem lives at a time.
Problem &problem_of(const Workload &workload, testing::Type type, int64_t offset) {
    static std::unique_ptr<Problem> problem;
    static int64_t problem_offset = 0;
    if (!problem || &problem->workload != &workload || problem->type != type || problem_offset != offset) {
        problem.reset();  // before the next one takes memory
        problem = std::make_unique<Problem>(workload, type, offset);
        problem_offset = offset;
    }
    return *problem;
}

void set_counters(benchmark::State &state, const Problem &p) {
    using benchmark::Counter;
    state.counters["GB/s"] = Counter(static_cast<double>(p.bytes()) * 1e-9, Counter::kIsIterationInvariantRate);
    state.counters["samples/s"] = Counter(static_cast<double>(p.workload.samples), Counter::kIsIterationInvariantRate);
}

void run_variant(benchmark::State &state, const Pass &pass, const Variant &variant, const Workload &workload, int64_t offset,
                 int threads) {
    Problem &p = problem_of(workload, testing::type_named(variant.type), offset);
    const auto call = [&] { return pass.call(p.tensors.data()); };
    // The first call is not timed: it starts threads or compiles for a device, and tells whether this machine has the variant.
    if (deformkit_set_target(variant.target.c_str()) != DEFORMKIT_OK || deformkit_set_num_threads(threads) != DEFORMKIT_OK ||
        call() != DEFORMKIT_OK) {
        state.SkipWithError(deformkit_last_error());
        return;
    }
    const std::vector<std::string> kernels = kernels_of(variant);
    if (std::find(kernels.begin(), kernels.end(), deformkit_last_variant()) == kernels.end()) {
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

void run_on_device(benchmark::State &state, const Pass &pass, const Variant &variant, const Workload &workload) {
    const testing::Device *device = testing::find_device(variant.device());
    if (device == nullptr) {
        state.SkipWithError("no such device answers");
        return;
    }
    Problem &p = problem_of(workload, testing::type_named(variant.type), 0);
    DeviceTensors tensors(*device, p);
    if (deformkit_set_target(nullptr) != DEFORMKIT_OK || deformkit_set_stream(device->dl(), device->stream()) != DEFORMKIT_OK ||
        pass.call(tensors.data()) != DEFORMKIT_OK) {
        state.SkipWithError(deformkit_last_error());
        return;
    }
    device->wait();
    while (state.KeepRunning()) {
        if (pass.call(tensors.data()) != DEFORMKIT_OK) {
            state.SkipWithError(deformkit_last_error());
            break;
        }
        device->wait();
    }
    set_counters(state, p);
    state.SetLabel(deformkit_last_device());
}

void run_hand_written(benchmark::State &state, const Workload &workload, int threads) {
    Problem &p = problem_of(workload, testing::Type::kF32, 0);
    while (state.KeepRunning()) {
        workload.hand(p.data.data(), threads);
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

void add_variants(const Pass &pass, const Workload &workload, const std::string &type, int64_t offset,
                  const std::vector<int> &threads) {
    const std::string suffix = offset ? "/unaligned" : "";
    const benchmark::TimeUnit unit = &workload == &pass.overhead ? benchmark::kNanosecond : benchmark::kMillisecond;
    for (const Variant &variant : variants_of(pass.op, pass.variant_of, type)) {
        const bool too_much = variant.device() == kDLOpenCL && workload.samples * workload.channels > kMostOpenClWork;
        if (variant.on_device() && (offset || too_much)) {
            continue;
        }
        if (variant.on_device()) {
            benchmark::RegisterBenchmark(
                (variant.name() + "/" + workload.name + "/on_device").c_str(),
                [=, &pass, &workload](benchmark::State &state) { run_on_device(state, pass, variant, workload); })
                ->UseRealTime()
                ->Unit(unit);
        }
        for (int n : threads) {
            if (variant.on_device() && n != threads.back()) {
                continue;
            }
            add(variant.name(), workload.name + suffix, n, unit,
                [=, &pass, &workload](benchmark::State &state) { run_variant(state, pass, variant, workload, offset, n); });
        }
    }
}

void add_all(const Pass &pass, const std::vector<int> &threads) {
    add_variants(pass, pass.overhead, "f32", 0, threads);
    for (const Workload &workload : pass.workloads) {
        for (const StorageType &type : kStorageTypes) {
            add_variants(pass, workload, type.name, 0, threads);
        }
        for (int n : threads) {
            if (workload.hand) {
                add("hand_avx512", workload.name, n, benchmark::kMillisecond,
                    [=, &workload](benchmark::State &state) { run_hand_written(state, workload, n); });
            }
        }
    }
    add_variants(pass, pass.workloads.front(), "f32", 16, threads);  // what malloc promises
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
    for (const Pass &pass : passes()) {
        add_all(pass, threads);
    }

    BestOfReporter<benchmark::ConsoleReporter> console;
    BestOfReporter<benchmark::JSONReporter> json;
    benchmark::RunSpecifiedBenchmarks(&console, to_file ? &json : nullptr);
    benchmark::Shutdown();
    return 0;
}
