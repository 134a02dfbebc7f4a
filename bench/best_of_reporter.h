// Google Benchmark reporters that show the best repetition only: noise on a shared machine makes a run slower, never faster.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

namespace deformkit::bench {

template <typename Base>
class BestOfReporter : public Base {
public:
    using Run = benchmark::BenchmarkReporter::Run;

    void ReportRuns(const std::vector<Run> &runs) override {
        const auto with_name = [&](const char *name) {
            return std::find_if(runs.begin(), runs.end(), [&](const Run &run) { return run.aggregate_name == name; });
        };
        const auto fastest = with_name("min");
        if (fastest == runs.end()) {  // a single repetition, or an error
            Base::ReportRuns({tidy(runs.front())});
            return;
        }
        // The statistics are taken of each column by itself: the shortest time goes with the highest rates.
        Run best = tidy(*fastest);
        best.counters = tidy(*with_name("max")).counters;
        Base::ReportRuns({best});
    }

private:
    /// The name keeps to <variant>/<workload>/threads:N, and the counters say what they are per second of in their names.
    static Run tidy(Run run) {
        run.run_name.time_type.clear();
        for (auto &counter : run.counters) {
            counter.second.flags = benchmark::Counter::kDefaults;
        }
        return run;
    }
};

}  // namespace deformkit::bench
