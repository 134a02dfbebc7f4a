// The library loaded at run time: beside others, twice, and unloaded again. This program is not linked to it.
#include <deformkit/deformkit.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "tests/process.h"

namespace deformkit::testing {
namespace {

class Loaded {
public:
    explicit Loaded(const std::string &path, int flags = RTLD_LOCAL) : handle_(dlopen(path.c_str(), RTLD_NOW | flags)) {
        EXPECT_NE(handle_, nullptr) << dlerror();
    }
    ~Loaded() { EXPECT_EQ(dlclose(handle_), 0); }
    Loaded(const Loaded &) = delete;
    Loaded &operator=(const Loaded &) = delete;

    template <typename Function>
    Function *function(const char *name) const {
        void *address = dlsym(handle_, name);
        EXPECT_NE(address, nullptr) << name;
        return reinterpret_cast<Function *>(address);
    }

private:
    void *handle_;
};

/// What a forward on so many threads gives; empty if it fails.
std::vector<float> call(const Loaded &library, int threads) {
    constexpr int64_t kQueries = 2000, kHeads = 4, kChannels = 16, kHeight = 20, kWidth = 30, kPoints = 4;
    std::vector<float> value(kHeight * kWidth * kHeads * kChannels), locations(kQueries * kHeads * kPoints * 2);
    std::iota(value.begin(), value.end(), 0.0f);
    for (size_t i = 0; i < locations.size(); i++) {
        locations[i] = static_cast<float>(i * 37 % 101) / 100;
    }
    std::vector<float> weights(kQueries * kHeads * kPoints, 0.25f), output(kQueries * kHeads * kChannels);
    std::vector<int64_t> shapes = {kHeight, kWidth}, starts = {0};

    const auto tensor = [](void *data, DLDataType dtype, std::vector<int64_t> &shape) {
        return DLTensor{data, {kDLCPU, 0}, static_cast<int32_t>(shape.size()), dtype, shape.data(), nullptr, 0};
    };
    const DLDataType f32 = {kDLFloat, 32, 1}, i64 = {kDLInt, 64, 1};
    std::vector<int64_t> value_shape = {1, kHeight * kWidth, kHeads, kChannels}, shapes_shape = {1, 2}, starts_shape = {1};
    std::vector<int64_t> locations_shape = {1, kQueries, kHeads, 1, kPoints, 2},
                         weights_shape = {1, kQueries, kHeads, 1, kPoints};
    std::vector<int64_t> output_shape = {1, kQueries, kHeads * kChannels};
    const DLTensor inputs[] = {tensor(value.data(), f32, value_shape), tensor(shapes.data(), i64, shapes_shape),
                               tensor(starts.data(), i64, starts_shape), tensor(locations.data(), f32, locations_shape),
                               tensor(weights.data(), f32, weights_shape)};
    DLTensor result = tensor(output.data(), f32, output_shape);
    EXPECT_EQ(library.function<decltype(deformkit_set_num_threads)>("deformkit_set_num_threads")(threads), DEFORMKIT_OK);
    const deformkit_status status = library.function<decltype(deformkit_msda_forward)>("deformkit_msda_forward")(
        &inputs[0], &inputs[1], &inputs[2], &inputs[3], &inputs[4], &result);
    EXPECT_EQ(status, DEFORMKIT_OK) << library.function<decltype(deformkit_last_error)>("deformkit_last_error")();
    return status == DEFORMKIT_OK ? output : std::vector<float>();
}

bool is_mapped(const std::string &name) {
    std::ifstream maps("/proc/self/maps");
    const std::string text((std::istreambuf_iterator<char>(maps)), {});
    return text.find(name) != std::string::npos;
}

TEST(Loading, AndUnloading) {
    std::vector<float> expected;
    long settled = 0;
    for (int repeat = 0; repeat < 200; repeat++) {
        {
            const Loaded library(DEFORMKIT_LIBRARY);
            const std::vector<float> output = call(library, 4);
            expected = expected.empty() ? output : expected;
            ASSERT_EQ(output, expected);
            ASSERT_EQ(threads_of_process(), 4);
            std::thread([&] { ASSERT_EQ(call(library, 2), expected); }).join();
        }
        ASSERT_EQ(threads_of_process(), 1) << repeat;
#ifndef __SANITIZE_ADDRESS__
        ASSERT_FALSE(is_mapped("libdeformkit")) << repeat;
#endif
        if (repeat == 20) {
            settled = resident_kib();
        }
    }
    const long grown = resident_kib() - settled;
    std::printf("%ld KiB more after 200 times than after 20\n", grown);
#ifndef __SANITIZE_ADDRESS__  // which keeps notes of every library
    EXPECT_LT(grown, 1024);
#endif
    const pid_t child = fork();  // handlers have gone with it
    if (child == 0) {
        _exit(0);
    }
    EXPECT_GT(child, 0);
}

TEST(Loading, TwoCopies) {
    const std::string copy = std::filesystem::temp_directory_path() / ("deformkit_copy_" + std::to_string(getpid()) + ".so");
    std::filesystem::copy_file(DEFORMKIT_LIBRARY, copy);
    {
        const Loaded first(DEFORMKIT_LIBRARY, RTLD_GLOBAL), second(copy, RTLD_GLOBAL);
        const std::vector<float> expected = call(first, 3);
        EXPECT_EQ(threads_of_process(), 3);
        EXPECT_EQ(call(second, 2), expected);
        EXPECT_EQ(threads_of_process(), 4);
        EXPECT_EQ(first.function<int()>("deformkit_get_num_threads")(), 3);
        EXPECT_EQ(second.function<int()>("deformkit_get_num_threads")(), 2);
    }
    std::filesystem::remove(copy);
    EXPECT_EQ(threads_of_process(), 1);
}

void check_beside_another(bool other_first) {
    std::vector<std::unique_ptr<Loaded>> loaded;
    for (const bool other : {other_first, !other_first}) {
        loaded.push_back(std::make_unique<Loaded>(other ? DEFORMKIT_OTHER_LIBRARY : DEFORMKIT_LIBRARY, RTLD_GLOBAL));
    }
    const Loaded &other = *loaded[other_first ? 0 : 1], &library = *loaded[other_first ? 1 : 0];
    const auto other_run = other.function<int()>("other_run"), hooks_called = other.function<int()>("other_hooks_called");
    const std::vector<float> alone = call(library, 1);
    ASSERT_FALSE(alone.empty());
    other.function<void()>("other_install")();
    for (int repeat = 1; repeat <= 3; repeat++) {
        EXPECT_EQ(call(library, 4), alone);
        EXPECT_EQ(hooks_called(), 3 * (repeat - 1)) << "the other library's hooks were called";
        EXPECT_EQ(other_run(), 100);
        EXPECT_EQ(hooks_called(), 3 * repeat) << "another's hooks were called";
    }
    EXPECT_STREQ(library.function<const char *()>("deformkit_last_error")(), "");
}

TEST(Loading, BeforeAnotherThatHalideBuilt) {
    check_beside_another(false);
}

TEST(Loading, AfterAnotherThatHalideBuilt) {
    check_beside_another(true);
}

}  // namespace
}  // namespace deformkit::testing
