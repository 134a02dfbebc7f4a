// Two builds of the library against each other, call by call in turn: what a change costs or saves.
//
//   paired OLD/libdeformkit.so NEW/libdeformkit.so [FILTER] [--threads 1,2] [--target NAME] [--seconds S]
//
// FILTER is a regular expression, searched in <operator>_<pass>_<type>/<workload>. Both get the same inputs; the best call of
// each counts, since noise only ever adds time. Printed: the two times, new over old, and whether the outputs' bits are equal.
#include <deformkit/deformkit.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/operators.h"
#include "bench/problem.h"
#include "bench/variants.h"

namespace deformkit::bench {
namespace {

class Library {
public:
    explicit Library(const char *path) : handle_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
        if (handle_ == nullptr) {
            throw std::runtime_error(dlerror());
        }
    }
    template <typename Function>
    Function *function(const char *name) const {
        void *address = dlsym(handle_, name);
        if (address == nullptr) {
            throw std::runtime_error(dlerror());
        }
        return reinterpret_cast<Function *>(address);
    }

private:
    void *handle_;
};

template <size_t... I>
deformkit_status call_with(void *function, DLTensor *tensors, std::index_sequence<I...>) {
    return reinterpret_cast<deformkit_status (*)(decltype(&tensors[I])...)>(function)(&tensors[I]...);
}

deformkit_status call(const Library &library, const Pass &pass, Problem &p) {
    void *function = reinterpret_cast<void *>(library.function<void()>(pass.function.c_str()));
    DLTensor *tensors = p.tensors.data();
    switch (p.tensors.size()) {
        case 6:
            return call_with(function, tensors, std::make_index_sequence<6>());
        case 8:
            return call_with(function, tensors, std::make_index_sequence<8>());
        case 9:
            return call_with(function, tensors, std::make_index_sequence<9>());
        default:
            throw std::logic_error(pass.function + ": a number of arguments that is not known here");
    }
}

double seconds_of(const Library &library, const Pass &pass, Problem &p) {
    const auto begin = std::chrono::steady_clock::now();
    if (call(library, pass, p) != DEFORMKIT_OK) {
        throw std::runtime_error(library.function<const char *()>("deformkit_last_error")());
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Options {
    std::string filter, target;
    std::vector<int> threads = {1, 2};
    double seconds = 1;
};

void compare(const Library &old_library, const Library &new_library, const Pass &pass, const Workload &workload,
             const char *type, const Options &options) {
    Problem old_problem(workload, testing::type_named(type), 0), new_problem(workload, testing::type_named(type), 0);
    for (const int threads : options.threads) {
        for (const Library *library : {&old_library, &new_library}) {
            library->function<deformkit_status(int)>("deformkit_set_num_threads")(threads);
            library->function<deformkit_status(const char *)>("deformkit_set_target")(
                options.target.empty() ? nullptr : options.target.c_str());
        }
        const char *same = "same bits";
        double old_best = HUGE_VAL, new_best = HUGE_VAL, spent = 0;
        for (int round = 0; round < 5 || spent < options.seconds; round++) {
            // Whoever comes first finds the other's data in the caches.
            const bool new_first = round % 2 == 1;
            const auto time = [&](bool of_new) {
                const double seconds =
                    of_new ? seconds_of(new_library, pass, new_problem) : seconds_of(old_library, pass, old_problem);
                double &best = of_new ? new_best : old_best;
                best = std::min(best, round == 0 ? HUGE_VAL : seconds);
                spent += seconds;
            };
            time(new_first);
            time(!new_first);
        }
        for (size_t i = 0; i < workload.arguments.size(); i++) {
            const auto bytes = static_cast<size_t>(bytes_of(workload.arguments[i], testing::type_named(type)));
            if (std::memcmp(old_problem.data[i], new_problem.data[i], bytes) != 0) {
                same = "other bits";
            }
        }
        std::printf("%-14s %-5s %-28s threads %d  %9.3f ms %9.3f ms  %.3f  %s\n", (pass.op + "_" + pass.name).c_str(), type,
                    workload.name.c_str(), threads, old_best * 1e3, new_best * 1e3, new_best / old_best, same);
        std::fflush(stdout);
    }
}

int run(int argc, char **argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: %s OLD.so NEW.so [FILTER] [--threads 1,2] [--target NAME] [--seconds S]\n", argv[0]);
        return 2;
    }
    Options options;
    for (int i = 3; i < argc; i++) {
        const std::string argument = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (argument == "--threads") {
            options.threads.clear();
            std::istringstream list(value);
            for (std::string number; std::getline(list, number, ',');) {
                options.threads.push_back(std::stoi(number));
            }
        } else if (argument == "--target") {
            options.target = value;
        } else if (argument == "--seconds") {
            options.seconds = std::stod(value);
        } else {
            options.filter = argument;
            continue;
        }
        i++;
    }
    const Library old_library(argv[1]), new_library(argv[2]);
    const std::regex filter(options.filter);
    std::printf("%-14s %-5s %-28s %-9s  %12s %12s  new/old\n", "pass", "type", "workload", "", "old", "new");
    for (const Pass &pass : passes()) {
        for (const StorageType &type : kStorageTypes) {
            std::vector<const Workload *> workloads = {&pass.overhead};
            for (const Workload &workload : pass.workloads) {
                workloads.push_back(&workload);
            }
            for (const Workload *workload : workloads) {
                if (std::regex_search(pass.op + "_" + pass.name + "_" + type.name + "/" + workload->name, filter)) {
                    compare(old_library, new_library, pass, *workload, type.name, options);
                }
            }
        }
    }
    return 0;
}

}  // namespace
}  // namespace deformkit::bench

int main(int argc, char **argv) {
    try {
        return deformkit::bench::run(argc, argv);
    } catch (const std::exception &e) {
        std::fprintf(stderr, "paired: %s\n", e.what());
        return 1;
    }
}
