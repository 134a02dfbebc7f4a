#include "runtime/dispatch/knobs.h"

#include <sys/stat.h>

#include <atomic>
#include <cctype>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "deformkit/deformkit.h"
#include "runtime/dispatch/variant.h"
#include "runtime/interface/error.h"
#include "runtime/system/locks.h"

namespace deformkit {

namespace {

/// One knob of one variant, or of the library.
struct NamedKnob {
    std::string name;  ///< owner.knob
    HostKnobs owner;
    size_t index;

    const Knob &knob() const { return owner.knobs[index]; }
};

std::vector<NamedKnob> *names = nullptr;  // Lock::kKnobs; for as long as the process lives
std::string *file_of_user = nullptr;      // the same

std::vector<NamedKnob> all_named_knobs() {
    std::vector<NamedKnob> all;
    for (const HostKnobs &owner : all_host_knobs()) {
        for (size_t i = 0; i < owner.count; i++) {
            all.push_back({std::string(owner.owner) + "." + owner.knobs[i].name, owner, i});
        }
    }
    return all;
}

/// For who asks for names. Calls of operators do not: a library that is loaded and unloaded again leaves nothing.
const std::vector<NamedKnob> &named_knobs() {
    const std::lock_guard<std::mutex> lock(mutex_of(Lock::kKnobs));
    if (names == nullptr) {
        names = std::make_unique<std::vector<NamedKnob>>(all_named_knobs()).release();
    }
    return *names;
}

const NamedKnob *knob_at(int index) {
    return index >= 0 && static_cast<size_t>(index) < named_knobs().size() ? &named_knobs()[static_cast<size_t>(index)]
                                                                           : nullptr;
}

const NamedKnob &knob_named(std::string_view name, const std::vector<NamedKnob> &among) {
    for (const NamedKnob &each : among) {
        if (each.name == name) {
            return each;
        }
    }
    throw Failure(DEFORMKIT_INVALID_VALUE, "name: no knob is called " + std::string(name));
}

void require_in_range(const HostKnobs &owner, const Knob &knob, int64_t value) {
    if (value < knob.lowest || value > knob.highest) {
        throw Failure(DEFORMKIT_INVALID_VALUE, std::string(owner.owner) + "." + knob.name + ": expected " +
                                                   std::to_string(knob.lowest) + " to " + std::to_string(knob.highest) +
                                                   ", got " + std::to_string(value));
    }
}

int64_t number_in(std::string_view text) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) {
        throw Failure(DEFORMKIT_INVALID_VALUE, "expected name=number, got '" + std::string(text) + "'");
    }
    return number;
}

/// All of a file or nothing: its last line, end=<how many it sets>, shows that it is whole.
void load(const std::string &path) {
    const std::vector<NamedKnob> knobs = all_named_knobs();
    std::ifstream file(path);
    const auto refuse = [&](int line, const std::string &why) {
        throw Failure(DEFORMKIT_INVALID_VALUE,
                      path + (line > 0 ? ":" + std::to_string(line) : "") + ": " + why + ". Nothing of the file is used.");
    };
    if (!file) {
        refuse(0, "cannot be read");
    }
    struct Setting {
        const NamedKnob *knob;
        int64_t value;
    };
    std::vector<Setting> settings;
    std::set<std::string> seen;
    bool ended = false;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
        number++;
        if (line.empty() || line[0] == '#') {
            continue;
        }
        try {
            const size_t equals = line.find('=');
            const std::string name = line.substr(0, equals);
            const int64_t value = number_in(equals == std::string::npos ? line : std::string_view(line).substr(equals + 1));
            if (ended || !seen.insert(name).second) {
                throw Failure(DEFORMKIT_INVALID_VALUE, ended ? "more lines than end= says" : name + " is set twice");
            }
            if (name == "end") {
                ended = value == static_cast<int64_t>(settings.size());
                if (!ended) {
                    throw Failure(DEFORMKIT_INVALID_VALUE, "expected " + std::to_string(value) +
                                                               " knobs before this line, got " +
                                                               std::to_string(settings.size()));
                }
                continue;
            }
            settings.push_back({&knob_named(name, knobs), value});
            require_in_range(settings.back().knob->owner, settings.back().knob->knob(), value);
        } catch (const Failure &failure) {
            refuse(number, failure.what());
        }
    }
    if (!ended) {
        refuse(0, "does not end in end=<number of knobs>: a part of it is missing");
    }
    for (const Setting &setting : settings) {
        setting.knob->owner.at(setting.knob->owner.values, setting.knob->index) = setting.value;
    }
}

/// "AMD EPYC 7763 64-Core" becomes amd-epyc-7763-64-core.
std::string cpu_model() {
    std::ifstream info("/proc/cpuinfo");
    std::string model;
    for (std::string line; model.empty() && std::getline(info, line);) {
        if (line.rfind("model name", 0) == 0) {
            for (const char c : line.substr(line.find(':') + 1)) {
                const auto u = static_cast<unsigned char>(c);
                if (std::isalnum(u) != 0) {
                    model += static_cast<char>(std::tolower(u));
                } else if (!model.empty() && model.back() != '-') {
                    model += '-';
                }
            }
        }
    }
    while (!model.empty() && model.back() == '-') {
        model.pop_back();
    }
    return model.empty() ? "unknown" : model;
}

std::string find_user_file() {
    if (const char *own = std::getenv("DEFORMKIT_KNOBS"); own != nullptr) {
        return own;
    }
    const char *config = std::getenv("XDG_CONFIG_HOME"), *home = std::getenv("HOME");
    std::string folder;
    if (config != nullptr && config[0] == '/') {
        folder = config;
    } else if (home != nullptr && home[0] == '/') {
        folder = std::string(home) + "/.config";
    } else {
        return "";
    }
    return folder + "/deformkit/" + cpu_model() + ".params";
}

/// Where the user's file is looked for; "": nowhere.
const std::string &user_file() {
    const std::lock_guard<std::mutex> lock(mutex_of(Lock::kKnobs));
    if (file_of_user == nullptr) {
        file_of_user = std::make_unique<std::string>(find_user_file()).release();
    }
    return *file_of_user;
}

std::atomic<bool> user_knobs_read{false};

}  // namespace

void set_host_knob(const HostKnobs &owner, const char *name, int64_t value) {
    for (size_t i = 0; i < owner.count; i++) {
        if (std::strcmp(owner.knobs[i].name, name) == 0) {
            require_in_range(owner, owner.knobs[i], value);
            owner.at(owner.values, i) = value;
            return;
        }
    }
    throw Failure(DEFORMKIT_INVALID_VALUE, std::string(owner.owner) + ": no host knob is called " + name);
}

void read_user_knobs() noexcept {
    if (user_knobs_read.load()) {
        return;
    }
    try {
        // Others wait: a plan must not see knobs change.
        const std::lock_guard<std::mutex> lock(mutex_of(Lock::kKnobs));
        if (user_knobs_read.load()) {
            return;
        }
        const std::string path = find_user_file();
        struct stat status {};
        const bool named = std::getenv("DEFORMKIT_KNOBS") != nullptr;
        try {
            if (!path.empty() && (named || stat(path.c_str(), &status) == 0)) {
                load(path);
            }
        } catch (const Failure &failure) {
            std::fprintf(stderr, "deformkit: %s\n", failure.what());
        }
        user_knobs_read.store(true);
    } catch (const std::exception &) {  // no memory: the next call tries again
    }
}

}  // namespace deformkit

int deformkit_num_knobs(void) {
    return static_cast<int>(deformkit::named_knobs().size());
}

const char *deformkit_knob_name(int index) {
    const deformkit::NamedKnob *knob = deformkit::knob_at(index);
    return knob != nullptr ? knob->name.c_str() : nullptr;
}

const char *deformkit_knob_meaning(int index) {
    const deformkit::NamedKnob *knob = deformkit::knob_at(index);
    return knob != nullptr ? knob->knob().meaning : nullptr;
}

deformkit_status deformkit_knob_range(const char *name, int64_t *standard, int64_t *lowest, int64_t *highest) {
    return deformkit::guarded([&] {
        if (name == nullptr || standard == nullptr || lowest == nullptr || highest == nullptr) {
            throw deformkit::Failure(DEFORMKIT_NULL_ARGUMENT, "name, standard, lowest, highest: expected no NULL");
        }
        const deformkit::Knob &knob = deformkit::knob_named(name, deformkit::named_knobs()).knob();
        *standard = knob.standard;
        *lowest = knob.lowest;
        *highest = knob.highest;
    });
}

deformkit_status deformkit_get_knob(const char *name, int64_t *value) {
    deformkit::read_user_knobs();
    return deformkit::guarded([&] {
        if (name == nullptr || value == nullptr) {
            throw deformkit::Failure(DEFORMKIT_NULL_ARGUMENT, "name, value: expected no NULL");
        }
        const deformkit::NamedKnob &knob = deformkit::knob_named(name, deformkit::named_knobs());
        *value = knob.owner.at(knob.owner.values, knob.index);
    });
}

deformkit_status deformkit_set_knob(const char *name, int64_t value) {
    deformkit::read_user_knobs();
    return deformkit::guarded([&] {
        if (name == nullptr) {
            throw deformkit::Failure(DEFORMKIT_NULL_ARGUMENT, "name: expected no NULL");
        }
        const deformkit::NamedKnob &knob = deformkit::knob_named(name, deformkit::named_knobs());
        deformkit::set_host_knob(knob.owner, knob.knob().name, value);
    });
}

deformkit_status deformkit_load_knobs(const char *path) {
    deformkit::read_user_knobs();
    return deformkit::guarded([&] {
        if (path == nullptr) {
            throw deformkit::Failure(DEFORMKIT_NULL_ARGUMENT, "path: expected no NULL");
        }
        deformkit::load(path);
    });
}

const char *deformkit_knobs_file(void) {
    try {
        return deformkit::user_file().c_str();
    } catch (...) {
        return "";
    }
}
