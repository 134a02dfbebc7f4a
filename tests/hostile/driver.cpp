// Runs calls of call.h without libFuzzer, so that any compiler will do: the files given, then changes of these for some time. What
// takes a way that none has taken before, as far as status, message and kernel tell, is changed further.
//
// usage: hostile_test [--seconds N] [--seed N] [--describe] [--keep FOLDER] FILE-OR-FOLDER...
#include <deformkit/deformkit.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "tests/hostile/call.h"

namespace {

using Bytes = std::vector<uint8_t>;
using namespace deformkit::testing;

const Bytes *running = nullptr;

/// Leaves the call that ended the process in a file.
void leave_input(int signal) {
    if (running != nullptr) {
        const char name[] = "hostile-call.bin";
        const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        ssize_t written = write(file, running->data(), running->size());
        written += write(STDERR_FILENO, "the call is in hostile-call.bin\n", 32);
        static_cast<void>(written);
        close(file);
    }
    std::signal(signal, SIG_DFL);
    std::raise(signal);
}

class Session {
public:
    void run(const Bytes &bytes) {
        running = &bytes;
        alarm(30);  // nothing hangs
        const auto start = std::chrono::steady_clock::now();
        const Outcome outcome = call_from(bytes.data(), bytes.size());
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (seconds > slowest_) {
            slowest_ = seconds;
            slowest_call_ = bytes;
        }
        alarm(0);
        running = nullptr;
        outcomes_[static_cast<int>(outcome)]++;
        calls_++;
        if (outcome != Outcome::kSkipped && ways_.insert(way(bytes, outcome)).second) {
            pool_.push_back(bytes);
        }
    }

    void change_for(double seconds, std::mt19937 &random) {
        const auto start = std::chrono::steady_clock::now();
        while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
            Bytes bytes = pool_.empty() || random() % 16 == 0 ? Bytes(32) : pool_[random() % pool_.size()];
            for (uint32_t i = random() % 6 + 1; i > 0; i--) {
                mutate(bytes, random);
            }
            run(bytes);
        }
    }

    void report() const {
        std::printf(
            "%lld calls: %lld refused, %lld done, of these %lld compared with the reference, %lld skipped; %zu ways\n"
            "the slowest took %.3f s, mostly for %s",
            calls_, outcomes_[1], outcomes_[2] + outcomes_[3], outcomes_[3], outcomes_[0], ways_.size(), slowest_,
            describe(slowest_call_.data(), slowest_call_.size()).c_str());
    }
    /// A file for each way that was found.
    void keep(const std::filesystem::path &folder) const {
        for (size_t i = 0; i < pool_.size(); i++) {
            std::ofstream(folder / std::to_string(i), std::ios::binary)
                .write(reinterpret_cast<const char *>(pool_[i].data()), static_cast<std::streamsize>(pool_[i].size()));
        }
    }
    long long compared() const { return outcomes_[static_cast<int>(Outcome::kCompared)]; }

private:
    /// Messages without their numbers.
    static std::string way(const Bytes &bytes, Outcome outcome) {
        std::string text = std::to_string(bytes.empty() ? 0 : bytes[0] % 6) + std::to_string(static_cast<int>(outcome));
        for (const char *c = outcome == Outcome::kRefused ? deformkit_last_error() : deformkit_last_variant(); *c != '\0';
             c++) {
            if (outcome != Outcome::kRefused || std::strchr("-0123456789", *c) == nullptr) {
                text += *c;
            }
        }
        return text;
    }

    double slowest_ = -1;
    Bytes slowest_call_;
    long long calls_ = 0, outcomes_[kOutcomes] = {};
    std::set<std::string> ways_;
    std::vector<Bytes> pool_;
};

Bytes contents(const std::filesystem::path &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "hostile_test: cannot read %s\n", path.c_str());
        std::exit(2);
    }
    return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char **argv) {
    unsetenv("DEFORMKIT_TARGET");
    unsetenv("DEFORMKIT_NUM_THREADS");
    double seconds = 0;
    uint32_t seed = std::random_device()();
    bool describes = false;
    std::string keep;
    std::set<std::filesystem::path> files;
    for (int i = 1; i < argc; i++) {
        const std::string argument = argv[i];
        if (argument == "--describe") {
            describes = true;
        } else if (argument == "--seconds" && i + 1 < argc) {
            seconds = std::stod(argv[++i]);
        } else if (argument == "--keep" && i + 1 < argc) {
            keep = argv[++i];
        } else if (argument == "--seed" && i + 1 < argc) {
            seed = static_cast<uint32_t>(std::stoul(argv[++i]));
        } else if (std::filesystem::is_directory(argument)) {
            for (const auto &entry : std::filesystem::directory_iterator(argument)) {
                files.insert(entry.path());
            }
        } else {
            files.insert(argument);
        }
    }
    if (files.empty()) {
        std::fprintf(stderr, "usage: hostile_test [--seconds N] [--seed N] [--describe] [--keep FOLDER] FILE-OR-FOLDER...\n");
        return 2;
    }
    for (int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGALRM}) {
        std::signal(signal, leave_input);
    }
    Session session;
    for (const auto &path : files) {
        const Bytes bytes = contents(path);
        if (describes) {
            std::printf("%s\n%s", path.c_str(), describe(bytes.data(), bytes.size()).c_str());
            std::fflush(stdout);
        }
        session.run(bytes);
    }
    std::printf("%zu files: ", files.size());
    session.report();
    if (seconds > 0) {
        std::printf("--seed %u\n", seed);
        std::fflush(stdout);
        std::mt19937 random(seed);
        session.change_for(seconds, random);
        session.report();
    }
    if (!keep.empty()) {
        session.keep(keep);
    }
    // Where nothing is compared, nothing is tested.
    return describes || session.compared() > 0 ? 0 : 1;
}
